// SPDX-License-Identifier: Apache-2.0
// What the official JavaScript client can do, against the server that the environment names.
//
//     node client.mjs FOLDER TEMPLATE [CHECK...]      FOLDER: where the package is installed
//
// Prints "ok NAME" or "not ok NAME" with the reason; exits 1 on any failure. A check of something
// that this version of the client does not have prints "skip NAME". Names say what must hold.
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import path from 'node:path'
import { builds } from './build.mjs'

const [folder, template, ...wanted] = process.argv.slice(2)
const require = createRequire(path.resolve(folder, 'package.json'))
const e2b = require('e2b')
const { Sandbox } = e2b
const version = require('e2b/package.json').version
const [major, minor] = version.split('.').map(Number)
const since = (a, b) => major > a || (major === a && minor >= b)

class Skip extends Error {}
const need = (condition, what) => { if (!condition) throw new Skip(what) }
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

async function waitFor(question, seconds = 10) {
  const deadline = Date.now() + seconds * 1000
  while (Date.now() < deadline) {
    const answer = await question()
    if (answer) return answer
    await sleep(50)
  }
  throw new Error(`did not happen within ${seconds} s`)
}

async function rejects(promise, kind) {
  try {
    await promise
  } catch (error) {
    if (kind && error.constructor.name !== kind) throw error
    return error
  }
  throw new Error(`${kind ?? 'an error'} was not thrown`)
}

const shared = {
  async 'a command gives output and status'(box) {
    const done = await box.commands.run('echo out; echo err >&2')
    assert.deepEqual([done.stdout, done.stderr, done.exitCode], ['out\n', 'err\n', 0])
  },
  async 'a failing command tells its status'(box) {
    const error = await rejects(box.commands.run('echo x; exit 3'), 'CommandExitError')
    assert.deepEqual([error.exitCode, error.stdout], [3, 'x\n'])
  },
  async 'a command has directory environment and user'(box) {
    const done = await box.commands.run('pwd; echo $A; id -un; echo $FROM_CREATE', { cwd: '/tmp', envs: { A: '1 2' } })
    assert.deepEqual(done.stdout.split('\n').slice(0, 4), ['/tmp', '1 2', 'user', 'of the sandbox'])
    assert.equal((await box.commands.run('id -un; pwd', { user: 'root' })).stdout, 'root\n/root\n')
  },
  async 'large output comes whole'(box) {
    const done = await box.commands.run("head -c 3000000 /dev/zero | tr '\\0' x")
    assert.equal(done.stdout.length, 3000000)
  },
  async 'output comes as it is made'(box) {
    const seen = []
    await box.commands.run('echo a; sleep 0.3; echo b', { onStdout: (line) => { seen.push([line, Date.now()]) } })
    assert.equal(seen.map(([line]) => line).join(''), 'a\nb\n')
    assert.ok(seen.at(-1)[1] - seen[0][1] > 200)
  },
  async 'a background command is listed and killed'(box) {
    const handle = await box.commands.run('sleep 60', { background: true })
    const row = (await box.commands.list()).find((p) => p.pid === handle.pid)
    assert.deepEqual([row.cmd, row.args], ['/bin/bash', ['-l', '-c', 'sleep 60']])
    assert.equal(await handle.kill(), true)
    const error = await rejects(handle.wait(), 'CommandExitError')
    assert.equal(error.exitCode, -1)
    await waitFor(async () => (await box.commands.list()).every((p) => p.pid !== handle.pid))
    assert.equal(await box.commands.kill(handle.pid), false)
  },
  async 'input reaches a command'(box) {
    const handle = await box.commands.run('head -n 1', { background: true, stdin: true })
    await box.commands.sendStdin(handle.pid, 'hello\n')
    assert.equal((await handle.wait()).stdout, 'hello\n')
  },
  async 'input ends'(box) {
    need(box.commands.closeStdin, 'closeStdin')
    const handle = await box.commands.run('cat', { background: true, stdin: true })
    await box.commands.sendStdin(handle.pid, 'hello')
    await box.commands.closeStdin(handle.pid)
    assert.equal((await handle.wait()).stdout, 'hello')
  },
  async 'a command ends at its timeout'(box) {
    await rejects(box.commands.run('sleep 31', { timeoutMs: 1000 }), 'TimeoutError')
    await waitFor(async () => !(await box.commands.run('ps ax -o args | grep -v grep')).stdout.includes('sleep 31'))
  },
  async 'a command outlives its client and is found again'(box) {
    const first = await box.commands.run('for i in 1 2 3 4 5; do echo $i; sleep 0.2; done; exit 7', { background: true, timeoutMs: 0 })
    first.wait().catch(() => {})
    await first.disconnect()
    const error = await rejects((await box.commands.connect(first.pid)).wait(), 'CommandExitError')
    assert.equal(error.exitCode, 7)
    assert.ok(error.stdout.endsWith('4\n5\n'), error.stdout)
  },
  async 'many commands run at once'(box) {
    const rows = await Promise.all([...Array(30).keys()].map((i) => box.commands.run(`sleep 0.1; echo ${i}`)))
    assert.deepEqual(rows.map((r) => r.stdout.trim()), [...Array(30).keys()].map(String))
  },
  async 'a terminal talks and resizes'(box) {
    let text = ''
    const handle = await box.pty.create({ cols: 100, rows: 30, timeoutMs: 20000, onData: (data) => { text += new TextDecoder().decode(data) } })
    await box.pty.sendInput(handle.pid, new TextEncoder().encode('stty size; echo $TERM\n'))
    await box.pty.resize(handle.pid, { cols: 90, rows: 40 })
    await box.pty.sendInput(handle.pid, new TextEncoder().encode('stty size; exit 5\n'))
    const error = await rejects(handle.wait(), 'CommandExitError')
    assert.equal(error.exitCode, 5)
    assert.ok(text.includes('40 90') && text.includes('xterm-256color'), text)
  },
  async 'a file is written and read'(box) {
    const info = await box.files.write('some/where/a b.txt', 'text with ü\n')
    assert.equal(info.path, '/home/user/some/where/a b.txt')
    assert.equal(await box.files.read('some/where/a b.txt'), 'text with ü\n')
    assert.equal((await box.commands.run("cat 'some/where/a b.txt'")).stdout, 'text with ü\n')
  },
  async 'bytes of any kind survive'(box) {
    const data = new Uint8Array(1 << 20).map((_, i) => i % 256)
    await box.files.write('/tmp/bytes', data.buffer)
    assert.deepEqual(Buffer.from(await box.files.read('/tmp/bytes', { format: 'bytes' })), Buffer.from(data))
    const parts = []
    for await (const part of await box.files.read('/tmp/bytes', { format: 'stream' })) parts.push(part)
    assert.deepEqual(Buffer.concat(parts), Buffer.from(data))
  },
  async 'several files go in one request'(box) {
    need(since(2, 0), 'write of a list')
    const rows = await box.files.write([...Array(20).keys()].map((i) => ({ path: `/tmp/several/${i}`, data: `file ${i}` })))
    assert.equal(rows.length, 20)
    assert.equal(await box.files.read('/tmp/several/13'), 'file 13')
  },
  async 'a file keeps its metadata'(box) {
    need(since(2, 45), 'metadata of files')
    const metadata = { color: 'dark blue', n: '1' }
    assert.deepEqual((await box.files.write('/tmp/labelled', 'x', { metadata })).metadata, metadata)
    assert.deepEqual((await box.files.getInfo('/tmp/labelled')).metadata, metadata)
    await box.files.rename('/tmp/labelled', '/tmp/labels/renamed')
    assert.deepEqual((await box.files.list('/tmp/labels')).map((e) => e.metadata), [metadata])
    await box.files.write('/tmp/labels/renamed', 'y')
    assert.deepEqual((await box.files.getInfo('/tmp/labels/renamed')).metadata ?? {}, {})
  },
  async 'a file is sent compressed'(box) {
    need(since(2, 45), 'gzip of files')
    await box.files.write('/tmp/packed', 'text\n'.repeat(100000), { gzip: true })
    assert.equal((await box.files.getInfo('/tmp/packed')).size, 500000)
  },
  async 'what is not there is not found'(box) {
    await rejects(box.files.read('/tmp/not there'))
    await rejects(box.files.list('/tmp/not there'))
    assert.equal(await box.files.exists('/tmp/not there'), false)
  },
  async 'directories are made listed and removed'(box) {
    assert.equal(await box.files.makeDir('/tmp/tree/deep'), true)
    assert.equal(await box.files.makeDir('/tmp/tree/deep'), false)
    await box.files.write('/tmp/tree/b.txt', 'b')
    assert.deepEqual((await box.files.list('/tmp/tree')).map((e) => [e.name, e.type]), [['b.txt', 'file'], ['deep', 'dir']])
    await box.files.remove('/tmp/tree')
    assert.equal(await box.files.exists('/tmp/tree'), false)
  },
  async 'a file is moved'(box) {
    await box.files.write('/tmp/from.txt', 'moved')
    await box.files.rename('/tmp/from.txt', '/tmp/new/place/to.txt')
    assert.equal(await box.files.read('/tmp/new/place/to.txt'), 'moved')
    assert.equal(await box.files.exists('/tmp/from.txt'), false)
  },
  async 'a service inside is reached'(box) {
    await box.commands.run('mkdir -p /tmp/www; echo from inside > /tmp/www/page; cd /tmp/www; python3 -m http.server 8000',
      { background: true, timeoutMs: 0 })
    const at = process.env.E2B_SANDBOX_URL
    const url = at ? `${at}/page` : `https://${box.getHost(8000)}/page`
    const headers = at ? { 'E2b-Sandbox-Id': box.sandboxId, 'E2b-Sandbox-Port': '8000' } : {}
    const reply = await waitFor(async () => { const r = await fetch(url, { headers }); return r.ok && r })
    assert.equal(await reply.text(), 'from inside\n')
  },
  async 'changes are seen'(box) {
    const seen = []
    await box.files.makeDir('/tmp/watched')
    const watch = await box.files.watchDir('/tmp/watched', (event) => { seen.push(`${event.type} ${event.name}`) }, { recursive: true })
    await box.files.write('/tmp/watched/one.txt', '1')
    await box.commands.run('mkdir /tmp/watched/sub; sleep 0.2; echo 2 > /tmp/watched/sub/two.txt; mv /tmp/watched/one.txt /tmp/watched/three.txt')
    const all = ['create one.txt', 'write one.txt', 'create sub', 'write sub/two.txt', 'rename one.txt', 'create three.txt']
    await waitFor(() => all.every((row) => seen.includes(row))).catch(() => assert.deepEqual(seen, all))
    await watch.stop()
  },
  async 'signed urls need no key'(box) {
    need(box.downloadUrl && since(2, 0), 'signed urls')
    await box.files.write('/tmp/signed.txt', 'by url')
    const reply = await fetch(await box.downloadUrl('/tmp/signed.txt', { useSignatureExpiration: 100 }))
    assert.equal(await reply.text(), 'by url')
    const late = await fetch(await box.downloadUrl('/tmp/signed.txt', { useSignatureExpiration: -10 }))
    assert.equal(late.status, 401)
    const form = new FormData()
    form.append('file', new Blob(['uploaded']), 'whatever')
    const sent = await fetch(await box.uploadUrl('/tmp/up.txt'), { method: 'POST', body: form })
    assert.equal(sent.status, 200)
    assert.equal(await box.files.read('/tmp/up.txt'), 'uploaded')
  },
  async 'it tells about itself'(box) {
    assert.equal(await box.isRunning(), true)
    const info = await box.getInfo()
    assert.deepEqual([info.sandboxId.split('-')[0], info.templateId], [box.sandboxId.split('-')[0], template])
    assert.equal(info.metadata.purpose, 'tests of js')
  },
  async 'its ports have names below the domain'(box) {
    assert.match(box.getHost(8000), /^8000-[a-z0-9]+\.sandglass\.localhost:\d+$/)
  },
  async 'it is listed by its metadata'(box) {
    const list = await Sandbox.list({ query: { metadata: { purpose: 'tests of js' } } })
    const rows = Array.isArray(list) ? list : await list.nextItems()
    assert.deepEqual(rows.map((s) => s.sandboxId.split('-')[0]), [box.sandboxId.split('-')[0]])
  },
  async 'its end is set and connecting does not move it closer'(box) {
    await box.setTimeout(500000)
    const first = (await box.getInfo()).endAt.getTime()
    const again = await Sandbox.connect(box.sandboxId, { timeoutMs: 100000 })
    if (since(2, 6)) assert.equal((await again.getInfo()).endAt.getTime(), first)
    assert.equal((await again.commands.run('echo same')).stdout, 'same\n')
  },
  async 'it measures itself'(box) {
    need(box.getMetrics, 'getMetrics')
    assert.ok((await box.getMetrics())[0].memTotal > 0)
  },
}

const alone = {
  async 'the default template has what agents use'() {
    const box = await Sandbox.create()
    assert.equal((await box.commands.run('id -un; for p in git python3 node curl sudo; do command -v $p >&2 || echo no $p; done')).stdout, 'user\n')
    assert.equal((await box.commands.run('sudo id -u; sudo -u user id -un; node -p 6*7; python3 -c "print(6 * 7)"')).stdout, '0\nuser\n42\n42\n')
    assert.equal((await box.commands.run('git init -q r; cd r; git -c user.name=a -c user.email=a@b commit -q --allow-empty -m one; git log --oneline | wc -l')).stdout.trim(), '1')
    await box.kill()
  },
  async 'a killed sandbox is gone'() {
    const box = await Sandbox.create(template)
    const handle = await box.commands.run('sleep 60', { background: true })
    await box.kill()
    assert.equal(await box.isRunning(), false)
    assert.equal(await Sandbox.kill(box.sandboxId), false)
    await rejects(handle.wait())
    await rejects(box.commands.run('true'))
  },
  async 'a sandbox ends at its time'() {
    const box = await Sandbox.create(template, { timeoutMs: 60000 })
    await box.setTimeout(1000)
    await waitFor(async () => !(await box.isRunning()), 5)
  },
  async 'a paused sandbox keeps its processes'() {
    const pause = Sandbox.prototype.pause ?? Sandbox.prototype.betaPause
    need(pause, 'pause')
    const box = await Sandbox.create(template, { timeoutMs: 60000 })
    const handle = await box.commands.run('sleep 60', { background: true })
    handle.wait().catch(() => {})
    await pause.call(box)
    assert.equal(await box.isRunning(), false)
    const again = await Sandbox.connect(box.sandboxId)
    assert.ok((await again.commands.list()).some((p) => p.pid === handle.pid))
    await box.kill()
  },
  async 'an unknown template is told'() {
    const error = await rejects(Sandbox.create('no-such-template'))
    assert.match(error.message, /404.*not found/)
  },
  async 'a snapshot is a template and survives its sandbox'() {
    need(Sandbox.prototype.createSnapshot && since(2, 26), 'names of snapshots')
    const box = await Sandbox.create(template)
    await box.files.write('state.txt', 'one')
    const bare = await box.createSnapshot(), named = await box.createSnapshot({ name: 'js-snap:v1' })
    assert.ok(bare.snapshotId.endsWith(':default') && named.snapshotId.endsWith('/js-snap:v1'))
    await box.files.write('state.txt', 'two')
    assert.equal((await box.listSnapshots().nextItems()).length, 2)
    await box.kill()
    for (const made of [bare, named]) {
      const copy = await Sandbox.create(made.snapshotId)
      assert.equal(await copy.files.read('state.txt'), 'one')
      await rejects(Sandbox.deleteSnapshot(made.snapshotId))
      await copy.kill()
      assert.equal(await Sandbox.deleteSnapshot(made.snapshotId), true)
      assert.equal(await Sandbox.deleteSnapshot(made.snapshotId), false)
    }
  },
  async 'forks have the files and tokens of their own'() {
    need(Sandbox.prototype.fork, 'fork')
    const box = await Sandbox.create(template, { metadata: { job: '7' }, envs: { E: 'v' } })
    await box.files.write('state.txt', 'shared')
    const forks = await box.fork({ count: 3 })
    assert.equal(new Set([box, ...forks].map((b) => b.sandboxId)).size, 4)
    for (const fork of forks) {
      assert.equal(await fork.files.read('state.txt'), 'shared')
      assert.equal((await fork.commands.run('echo $E')).stdout, 'v\n')
      await fork.files.write('state.txt', fork.sandboxId)
    }
    assert.equal(await box.files.read('state.txt'), 'shared')
    await Promise.all([box, ...forks].map((b) => b.kill()))
  },
  async 'a pause of the files alone boots anew'() {
    need(Sandbox.prototype.fork, 'keepMemory') // the two came with one version
    const box = await Sandbox.create(template)
    const boot = async (b) => (await b.commands.run('cat /proc/sys/kernel/random/boot_id')).stdout
    const before = await boot(box)
    await box.files.write('kept.txt', 'kept')
    await box.pause({ keepMemory: false })
    const again = await Sandbox.connect(box.sandboxId)
    assert.equal(await again.files.read('kept.txt'), 'kept')
    assert.notEqual(await boot(again), before)
    await again.kill()
  },
  async 'volumes keep files and sandboxes share them'() {
    const { Volume } = e2b
    need(Volume, 'Volume')
    const volume = await Volume.create('js-volume')
    const content = { apiUrl: process.env.E2B_API_URL ?? `https://api.${process.env.E2B_DOMAIN}` }
    await volume.writeFile('/hello.txt', 'from outside', { mode: 0o640, ...content })
    const stat = await volume.getInfo('/hello.txt', content)
    assert.deepEqual([stat.name, stat.type, stat.size, stat.mode], ['hello.txt', 'file', 12, 0o640])
    assert.equal(await volume.readFile('/hello.txt', content), 'from outside')
    await volume.makeDir('/a/b', { force: true, ...content })
    assert.deepEqual((await volume.list('/', { depth: 2, ...content })).map((e) => e.path).sort(), ['/a', '/a/b', '/hello.txt'])
    assert.equal((await volume.updateMetadata('/hello.txt', { mode: 0o644 }, content)).mode, 0o644)
    const mounts = { volumeMounts: { '/mnt/v': volume } }
    const [one, two] = await Promise.all([Sandbox.create(template, mounts), Sandbox.create(template, mounts)])
    assert.equal((await one.commands.run('cat /mnt/v/hello.txt')).stdout, 'from outside')
    await one.commands.run('echo from one > /mnt/v/one')
    assert.equal((await two.commands.run('cat /mnt/v/one')).stdout, 'from one\n')
    assert.equal(await volume.readFile('/one', content), 'from one\n')
    await Promise.all([one.kill(), two.kill()])
    await volume.remove('/a', content)
    assert.equal(await volume.exists('/a', content), false)
    await rejects(volume.readFile('/none', content))
    assert.ok((await Volume.list()).some((v) => v.volumeId === volume.volumeId))
    assert.equal(await Volume.destroy(volume.volumeId), true)
    assert.equal(await Volume.destroy(volume.volumeId), false)
  },
  async 'secrets are kept and never shown'() {
    const { Secret } = e2b
    need(Secret, 'Secret')
    const made = await Secret.create('Js-Secret', 'hidden value', { metadata: { team: 'blue' } })
    assert.deepEqual([made.name, made.version, made.metadata], ['js-secret', 1, { team: 'blue' }])
    await rejects(Secret.create('js-secret', 'again'), 'SecretError')
    assert.equal((await Secret.update(made.secretId, 'another')).version, 2)
    assert.equal((await Secret.getInfo('js-secret')).secretId, made.secretId)
    await Secret.create('js-second', 'x')
    const pages = Secret.list({ limit: 1 }), names = []
    while (pages.hasNext) names.push(...(await pages.nextItems()).map((s) => s.name))
    assert.deepEqual(names, ['js-second', 'js-secret'])
    for (const name of names) assert.equal(await Secret.destroy(name), true)
    assert.equal(await Secret.destroy('js-secret'), false)
    assert.equal(await Secret.exists('js-secret'), false)
    await rejects(Secret.update('js-secret', 'x'), 'SecretNotFoundError')
  },
  async 'network settings are enforced and change while it runs'() {
    need(Sandbox.prototype.updateNetwork, 'updateNetwork')
    const [host, port] = process.env.SDK_FAR.split(' ')
    const script = `import socket; print(socket.create_connection(('${host}', ${port}), 5).recv(1))`
    const reaches = async (b) =>
      (await b.commands.run(`python3 -c "${script}" 2>/dev/null || true`)).stdout === "b'+'\n"
    const free = await Sandbox.create(template)
    assert.ok(await reaches(free))
    await free.updateNetwork({ denyOut: [host] })
    assert.ok(!(await reaches(free)))
    await free.updateNetwork({ denyOut: ['0.0.0.0/0'], allowOut: [host] })
    assert.ok(await reaches(free))
    await free.updateNetwork({ allowInternetAccess: false })
    assert.ok(!(await reaches(free)))
    await free.kill()
    const closed = await Sandbox.create(template, { allowInternetAccess: false })
    const some = await Sandbox.create(template, { network: { denyOut: ['0.0.0.0/0'], allowOut: [host] } })
    assert.deepEqual([await reaches(closed), await reaches(some)], [false, true])
    await Promise.all([closed.kill(), some.kill()])
    // Versions that know no proxy leave it out, and go straight.
    const egressProxy = { address: process.env.SDK_PROXY, username: 'sdk', password: 'proxy-password' }
    const tunnelled = await Sandbox.create(template, { network: { egressProxy } })
    const greeting = (await tunnelled.commands.run(`python3 -c "${script}" 2>/dev/null || true`)).stdout
    const shown = (await tunnelled.getInfo()).network?.egressProxy
    assert.equal(greeting, shown ? "b'*'\n" : "b'+'\n")
    if (shown) assert.deepEqual({ ...shown }, { address: egressProxy.address, username: 'sdk' })
    await tunnelled.kill()
  },
  async 'a wrong key is refused'() {
    const error = await rejects(Sandbox.create(template, { apiKey: 'e2b_' + '0'.repeat(40) }))
    assert.ok(error.name === 'AuthenticationError' || /401/.test(error.message), error)
  },
}

async function run(name, check, box) {
  if (wanted.length && !wanted.includes(name)) return true
  try {
    await check(box)
  } catch (error) {
    if (error instanceof Skip) {
      console.log(`skip ${name}: e2b ${version} has no ${error.message}`)
      return true
    }
    console.log(`not ok ${name}\n  ${(error.stack ?? String(error)).replaceAll('\n', '\n  ')}`)
    return false
  }
  console.log(`ok ${name}`)
  return true
}

Object.assign(alone, builds({ e2b, template, need, rejects }))
let good = true
const box = await Sandbox.create(template, {
  timeoutMs: 300000, metadata: { purpose: 'tests of js' }, envs: { FROM_CREATE: 'of the sandbox' },
})
for (const [name, check] of Object.entries(shared)) good = (await run(name, check, box)) && good
await box.kill()
for (const [name, check] of Object.entries(alone)) good = (await run(name, check)) && good
process.exit(good ? 0 : 1)
