// SPDX-License-Identifier: Apache-2.0
// What the JavaScript client does for the benchmark, on demand: one name a line on stdin, one line
// back, the nanoseconds it took or what went wrong. case_sdk.c decides what, when and how often.
//
//     node sdk.mjs FOLDER NGINX-URL      FOLDER: where the package is installed
//
// The server is named by the environment, as the client wants it: E2B_API_URL, E2B_SANDBOX_URL,
// E2B_API_KEY.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import http from 'node:http'
import { createRequire } from 'node:module'
import path from 'node:path'
import readline from 'node:readline'

const [folder, nginx] = process.argv.slice(2)
const require = createRequire(path.resolve(folder, 'package.json'))
const { Sandbox } = require('e2b')
const { Agent, fetch } = require('undici') // the client's own, so that both go the same way
const dispatcher = new Agent()
const server = new URL(process.env.E2B_API_URL)
const MANY = 100
const FILE_BYTES = 256 << 20
const large = { timeoutMs: 0, requestTimeoutMs: 120000 }

let box // of `open`, for what needs one that lives
let file // what is uploaded

async function timed(work) {
  const start = process.hrtime.bigint()
  await work()
  return process.hrtime.bigint() - start
}

// ---- the same calls without the client: one connection that stays, as little as HTTP needs ----

const agent = new http.Agent({ keepAlive: true, maxSockets: 1 })

function ask(method, target, headers, body) {
  return new Promise((resolve, reject) => {
    const { hostname: host, port } = server
    const request = http.request({ host, port, method, path: target, headers, agent }, (reply) => {
      const pieces = []
      reply.on('data', (piece) => pieces.push(piece))
      reply.on('error', reject)
      reply.on('end', () => resolve({ status: reply.statusCode, body: Buffer.concat(pieces) }))
    })
    request.on('error', reject)
    request.end(body)
  })
}

function envelope(message) {
  const body = Buffer.from(JSON.stringify(message))
  const head = Buffer.alloc(5)
  head.writeUInt32BE(body.length, 1)
  return Buffer.concat([head, body])
}

async function rawCycle() {
  const key = { 'X-API-Key': process.env.E2B_API_KEY, 'Content-Type': 'application/json' }
  const made = await ask('POST', '/v2/sandboxes', key, '{"templateID":"base","timeout":300}')
  assert.equal(made.status, 201, made.body.toString())
  const { sandboxID: id, envdAccessToken: token } = JSON.parse(made.body)
  const run = { process: { cmd: '/bin/bash', args: ['-l', '-c', 'true'], envs: {} }, stdin: false }
  const ran = await ask('POST', '/process.Process/Start', {
    'E2b-Sandbox-Id': id, 'E2b-Sandbox-Port': '49983', 'X-Access-Token': token,
    'Content-Type': 'application/connect+json', 'Connect-Protocol-Version': '1',
  }, envelope(run))
  assert.ok(ran.body.includes('"exitCode":0'), ran.body.toString())
  assert.equal((await ask('DELETE', `/sandboxes/${id}`, key)).status, 204)
}

// ---- what can be asked for ----

async function sdkCycle() {
  const one = await Sandbox.create()
  assert.equal((await one.commands.run('true')).exitCode, 0)
  assert.equal(await one.kill(), true)
}

function spawnTrue() {
  return new Promise((resolve, reject) => {
    const child = spawn('/bin/bash', ['-l', '-c', 'true'])
    child.stdout.resume()
    child.stderr.resume()
    child.on('error', reject)
    child.on('close', (code) => (code === 0 ? resolve() : reject(new Error(`bash ended with ${code}`))))
  })
}

async function creates(atOnce) {
  const made = []
  const one = async () => { made.push(await Sandbox.create()) }
  const took = await timed(async () => {
    if (atOnce) await Promise.all(Array.from({ length: MANY }, one))
    else for (let i = 0; i < MANY; i++) await one()
  })
  assert.equal(new Set(made.map((each) => each.sandboxId)).size, MANY)
  for (const each of made) await each.kill()
  return took
}

async function nginxWrite() {
  const form = new (require('undici').FormData)()
  form.append('file', file, 'large')
  const reply = await fetch(`${nginx}/put/large`, { method: 'PUT', body: form, dispatcher })
  await reply.arrayBuffer()
  assert.ok(reply.ok, String(reply.status))
}

async function nginxRead() {
  const reply = await fetch(`${nginx}/put/same`, { dispatcher })
  assert.equal((await reply.arrayBuffer()).byteLength, FILE_BYTES)
}

const deeds = {
  'sdk cycle': () => timed(sdkCycle),
  'raw cycle': () => timed(rawCycle),
  open: () => timed(async () => { box = await Sandbox.create({ timeoutMs: 3600000 }) }),
  close: () => timed(() => box.kill()),
  run: () => timed(() => box.commands.run('true')),
  spawn: () => timed(spawnTrue),
  'creates at once': () => creates(true),
  'creates in turn': () => creates(false),
  'sdk write': () => timed(() => box.files.write('large', file, large)),
  'sdk read': () => timed(async () => {
    assert.equal((await box.files.read('large', { format: 'bytes', ...large })).length, FILE_BYTES)
  }),
  'nginx write': () => timed(nginxWrite),
  'nginx read': () => timed(nginxRead),
  fill: () => timed(async () => {
    const bytes = Buffer.alloc(FILE_BYTES)
    for (let i = 0; i < bytes.length; i += 4) bytes.writeUInt32LE((i * 2654435761) >>> 0, i)
    file = new Blob([bytes])
    const reply = await fetch(`${nginx}/put/same`, { method: 'PUT', body: file, dispatcher })
    assert.ok(reply.ok, String(reply.status))
  }),
}

for await (const name of readline.createInterface({ input: process.stdin })) {
  try {
    if (!deeds[name]) throw new Error(`no deed '${name}'`)
    console.log(`ok ${await deeds[name]()}`)
  } catch (error) {
    console.log(`error ${String(error?.stack ?? error).replaceAll('\n', ' | ')}`)
  }
}
process.exit(0)
