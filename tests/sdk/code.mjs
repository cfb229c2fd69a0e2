// SPDX-License-Identifier: Apache-2.0
// What the official JavaScript client of the code interpreter can do with a sandbox that is there.
//
//   code.mjs FOLDER SANDBOX          prints "ok NAME" or "not ok NAME" with the reason; exits 1 on any failure
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { setTimeout as sleep } from 'node:timers/promises'

const [folder, id] = process.argv.slice(2)
const { Sandbox } = createRequire(`${folder}/x.js`)('@e2b/code-interpreter')
const box = await Sandbox.connect(id)

async function ran(code, opts) {
  const done = await box.runCode(code, opts)
  assert.equal(done.error, undefined, JSON.stringify(done.error))
  return done
}

const checks = {
  async 'state stays between calls'() {
    await ran('x = 1')
    const done = await ran('x += 1; x')
    assert.equal(done.text, '2')
    assert.ok(done.executionCount >= 2)
  },
  async 'output and callbacks'() {
    const heard = []
    const done = await ran('import sys\nprint("out")\nprint("err", file=sys.stderr)\n5', {
      onStdout: (m) => heard.push(['out', m.line]), onStderr: (m) => heard.push(['err', m.line]), onResult: (r) => heard.push(['res', r.text]),
    })
    assert.deepEqual(done.logs, { stdout: ['out\n'], stderr: ['err\n'] })
    assert.deepEqual(heard.sort(), [['err', 'err\n'], ['out', 'out\n'], ['res', '5']])
  },
  async 'output streams'() {
    const times = []
    await ran('import time\nfor i in range(3):\n    print(i, flush=True)\n    time.sleep(0.4)', { onStdout: () => times.push(Date.now()) })
    assert.equal(times.length, 3)
    assert.ok(times[2] - times[0] > 500)
  },
  async 'errors'() {
    const heard = []
    const done = await box.runCode('nope', { onError: (e) => heard.push(e.name) })
    assert.deepEqual([done.error.name, done.error.value], ['NameError', "name 'nope' is not defined"])
    assert.match(done.error.traceback, /nope/)
    assert.deepEqual(heard, ['NameError'])
  },
  async 'results of every type'() {
    const done = await ran(`from IPython.display import display
display({"text/plain": "t", "text/html": "h", "text/markdown": "m", "image/svg+xml": "<svg/>", "image/png": "aWNv", "image/jpeg": "anBn",
  "application/pdf": "cGRm", "text/latex": "l", "application/json": {"a": 1}, "application/javascript": "j", "x-own/type": "o"}, raw=True)`)
    const r = done.results[0] // this client looks for further types beside, not in, "extra"
    assert.deepEqual([r.text, r.html, r.markdown, r.svg, r.png, r.jpeg, r.pdf, r.latex, r.json, r.javascript, r.extra, r.isMainResult],
      ['t', 'h', 'm', '<svg/>', 'aWNv', 'anBn', 'cGRm', 'l', { a: 1 }, 'j', {}, false])
  },
  async 'charts'() {
    const plot = async (code) => (await ran(`import matplotlib.pyplot as plt\n${code}\nplt.show()`)).results[0]
    const line = await plot('plt.plot([1, 2], [3, 4], label="a")\nplt.title("T")')
    assert.ok(line.png)
    assert.equal(line.chart.type, 'line')
    assert.equal(line.chart.title, 'T')
    assert.deepEqual(line.chart.elements, [{ label: 'a', points: [[1, 3], [2, 4]] }])
    assert.equal((await plot('plt.scatter([1], [2])')).chart.type, 'scatter')
    assert.deepEqual((await plot('plt.bar(["x"], [3], label="g")')).chart.elements.map((e) => [e.label, e.group, Number(e.value)]), [['x', 'g', 3]])
    assert.deepEqual((await plot('plt.pie([1, 1], labels=["p", "q"])')).chart.elements.map((e) => [e.label, Math.round(e.angle)]), [['p', 180], ['q', 180]])
    assert.equal((await plot('plt.boxplot([[1, 2, 3]], patch_artist=True)')).chart.elements[0].median, 2)
    assert.deepEqual((await plot('f, a = plt.subplots(2)\na[0].plot([1, 2], [1, 2])\na[1].scatter([1], [1])')).chart.elements.map((e) => e.type), ['line', 'scatter'])
  },
  async 'environment of one call'() {
    assert.equal((await ran('import os; os.environ.get("K")', { envs: { K: 'v' } })).text, 'v')
    assert.equal((await ran('str(os.environ.get("K"))')).text, 'None')
  },
  async 'contexts'() {
    const one = await box.createCodeContext({ cwd: '/tmp', language: 'python' })
    assert.deepEqual([one.language, one.cwd], ['python', '/tmp'])
    await ran('inside = 1', { context: one })
    assert.equal((await ran('import os; os.getcwd()', { context: one })).text, '/tmp')
    assert.equal((await box.runCode('inside')).error.name, 'NameError')
    assert.ok((await box.listCodeContexts()).some((c) => c.id === one.id))
    await box.restartCodeContext(one)
    assert.equal((await box.runCode('inside', { context: one })).error.name, 'NameError')
    await box.removeCodeContext(one)
    await assert.rejects(box.runCode('1', { context: one }), /not found/i)
  },
  async 'languages'() {
    assert.equal((await ran('const a = 40; a + 2', { language: 'javascript' })).text, '42')
    assert.equal((await ran('a', { language: 'js' })).text, '40')
    assert.deepEqual((await ran('echo hi', { language: 'bash' })).logs.stdout, ['hi\n'])
    await assert.rejects(box.runCode('1', { language: 'cobol' }), /500/)
  },
  async 'timeout, and the next call works'() {
    await ran('kept = "yes"')
    await assert.rejects(box.runCode('import time; time.sleep(300)', { timeoutMs: 1000 }))
    assert.equal((await ran('kept', { timeoutMs: 10000 })).text, 'yes')
  },
  async 'a hang in a loop, and the next call works'() {
    await assert.rejects(box.runCode('while True: pass', { timeoutMs: 1000 }))
    assert.equal((await ran('kept', { timeoutMs: 10000 })).text, 'yes')
    await assert.rejects(box.runCode('while (true) {}', { language: 'js', timeoutMs: 1000 }))
    assert.equal((await ran('a', { language: 'js', timeoutMs: 10000 })).text, '40')
  },
  async 'a kernel that dies'() {
    const done = await box.runCode('import os; os._exit(1)')
    assert.equal(done.error.name, 'KernelDied')
    assert.equal((await ran('1 + 1')).text, '2')
  },
  async 'reconnect'() {
    await ran('here = 5')
    assert.equal((await (await Sandbox.connect(id)).runCode('here')).text, '5')
  },
}

let failed = 0
for (const [name, run] of Object.entries(checks)) {
  try {
    await run()
    console.log(`ok ${name}`)
  } catch (error) {
    failed++
    console.log(`not ok ${name}\n${error.stack}`)
  }
}
setTimeout(() => box.kill(), 500)
const killed = await box.runCode('import time; time.sleep(30)', { timeoutMs: 20000 }).then(() => null, (error) => error)
console.log(killed ? `ok a killed sandbox is told (${killed.name})` : 'not ok a killed sandbox is told')
await sleep(100)
process.exit(failed || !killed ? 1 : 0)
