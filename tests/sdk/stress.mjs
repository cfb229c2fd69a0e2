// SPDX-License-Identifier: Apache-2.0
// Many clients at once, each doing everything again and again, until the time is over.
//
//     node stress.mjs FOLDER TEMPLATE CLIENTS SECONDS
//
// Prints one line of JSON: rounds, and the errors that nobody expected.
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import path from 'node:path'

const [folder, template, clients, seconds] = process.argv.slice(2)
const { Sandbox } = createRequire(path.resolve(folder, 'package.json'))('e2b')
const until = Date.now() + Number(seconds) * 1000
const errors = []
let rounds = 0

async function round(n) {
  const box = await Sandbox.create(template, { timeoutMs: 120000 })
  try {
    assert.equal((await box.commands.run(`echo ${n}`)).stdout, `${n}\n`)
    const text = String(n).repeat(10000)
    let seen
    const event = new Promise((resolve) => { seen = resolve })
    await box.files.makeDir('/tmp/w')
    const watch = await box.files.watchDir('/tmp/w', () => seen())
    await box.files.write('/tmp/w/file', text)
    assert.equal(await box.files.read('/tmp/w/file'), text)
    await event
    await watch.stop()
    const pty = await box.pty.create({ cols: 80, rows: 24, onData: () => {}, timeoutMs: 60000 })
    await box.pty.sendInput(pty.pid, new TextEncoder().encode('exit 0\n'))
    assert.equal((await pty.wait()).exitCode, 0)
    const sleeper = await box.commands.run('sleep 60', { background: true })
    sleeper.wait().catch(() => {})
    assert.equal(await sleeper.kill(), true)
  } finally {
    assert.equal(await Sandbox.kill(box.sandboxId), true)
  }
}

async function worker(n) {
  while (Date.now() < until) {
    try {
      await round(n)
      rounds++
    } catch (error) {
      errors.push(String(error.stack ?? error))
    }
  }
}

await Promise.all([...Array(Number(clients)).keys()].map(worker))
console.log(JSON.stringify({ rounds, errors: errors.slice(0, 5), count: errors.length }))
process.exit(0)
