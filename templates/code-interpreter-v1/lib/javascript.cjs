// SPDX-License-Identifier: Apache-2.0
// What runs JavaScript: one Node, in whose global scope every execution goes on where the last one ended.
//
// Code is evaluated by the inspector's REPL mode, from inside: `let` and `const` may be declared again, `await` stands at
// the top level, and the last expression is the value. It is called from a script of node:vm, because those can be
// interrupted in the middle of a loop. Requests come on descriptor 3, events leave on 4; what is printed goes to the
// pipes of driver.py, which puts both in order.
'use strict'
const fs = require('node:fs')
const inspector = require('node:inspector')
const module_ = require('node:module')
const path = require('node:path')
const util = require('node:util')
const vm = require('node:vm')

const language = process.argv[2] || 'javascript'
const session = new inspector.Session()
session.connect()
let current = null // id of what runs
let interrupt = null // rejects what is awaited

function send(event) {
  const line = Buffer.from(JSON.stringify(event) + '\n')
  for (let at = 0; at < line.length;) {
    try {
      at += fs.writeSync(4, line, at)
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error
    }
  }
}

function emit(type, members) {
  send({ type, id: current, ...members })
}

// ---- what a value looks like ----

const FIELDS = {
  'text/plain': 'text', 'text/html': 'html', 'text/markdown': 'markdown', 'image/svg+xml': 'svg', 'image/png': 'png',
  'image/jpeg': 'jpeg', 'application/pdf': 'pdf', 'text/latex': 'latex', 'application/json': 'json',
  'application/javascript': 'javascript', 'e2b/data': 'data', 'e2b/chart': 'chart',
}
const DISPLAY = Symbol.for('Jupyter.display')
const KINDS = [['image/png', '89504e47'], ['image/jpeg', 'ffd8ff'], ['application/pdf', '25504446']]

function isPlain(value) {
  if (value === null || typeof value !== 'object') return false
  const proto = Object.getPrototypeOf(value)
  return Array.isArray(value) || proto === Object.prototype || proto === null
}

function bundleOf(value) {
  if (value && typeof value[DISPLAY] === 'function') return value[DISPLAY]()
  if (value instanceof Uint8Array) {
    const bytes = Buffer.from(value.buffer, value.byteOffset, value.byteLength)
    const kind = KINDS.find(([, magic]) => bytes.subarray(0, magic.length / 2).toString('hex') === magic)
    if (kind) return { [kind[0]]: bytes.toString('base64') }
  }
  const bundle = { 'text/plain': typeof value === 'string' ? value : util.inspect(value, { maxArrayLength: 1000, maxStringLength: 1e6 }) }
  if (isPlain(value)) {
    try {
      bundle['application/json'] = JSON.parse(JSON.stringify(value))
    } catch { /* it has a cycle, or a BigInt: the text says it all */ }
  }
  return bundle
}

function show(bundle, isMain) {
  const members = { is_main_result: isMain, extra: {} }
  for (const [type, value] of Object.entries(bundle)) {
    if (value === undefined || value === null) continue
    const field = FIELDS[type]
    if (field) members[field] = value instanceof Uint8Array ? Buffer.from(value).toString('base64') : value
    else members.extra[type] = value
  }
  emit('result', members)
}

globalThis.display = (value, options) => {
  if (current) show(options && options.raw ? value : bundleOf(value), false)
}
const tagged = (type) => (strings, ...values) => {
  const text = typeof strings === 'string' ? strings : String.raw({ raw: strings }, ...values)
  return { [DISPLAY]: () => ({ [type]: text }) }
}
Object.assign(globalThis.display, {
  html: tagged('text/html'), md: tagged('text/markdown'), svg: tagged('image/svg+xml'), latex: tagged('text/latex'),
  bundle: (bundle) => ({ [DISPLAY]: () => bundle }),
})

// ---- the language: imports, types ----

// Code in pieces: what is a string, a comment or a regular expression is left alone.
const PIECES = new RegExp([
  String.raw`\/\/[^\n]*|\/\*[\s\S]*?\*\/`, String.raw`'(?:\\[\s\S]|[^'\\\n])*'|"(?:\\[\s\S]|[^"\\\n])*"`,
  String.raw`\`(?:\\[\s\S]|[^\`\\])*\``, String.raw`(?<=[=(,:;!&|?{}\[\n]\s*)\/(?![*\/])(?:\\.|\[(?:\\.|[^\]\n])*\]|[^\/\\\n])+\/[a-z]*`,
].join('|'), 'g')
const STATIC = /(?<=^|[;\n])([ \t]*)import\s+(?:([\w$]+)\s*,?\s*)?(?:\*\s*as\s+([\w$]+)\s*|\{([^}]*)\}\s*)?(?:from\s*)?(\u0001\d+\u0002)\s*;?/g

function rewriteImports(code) {
  if (!/\bimport\b/.test(code)) return code
  const kept = []
  let text = code.replace(PIECES, (piece) => `\u0001${kept.push(piece) - 1}\u0002`)
  text = text.replace(STATIC, (whole, space, main, all, some, from) => {
    const names = [main && `default: ${main}`, some && some.replace(/\b([\w$]+)\s+as\s+/g, '$1: ')].filter(Boolean).join(', ')
    const parts = []
    if (all) parts.push(`const ${all} = await __import(${from})`)
    if (names) parts.push(`const { ${names} } = await __import(${from})`)
    return space + (parts.join('; ') || `await __import(${from})`) + ';'
  })
  text = text.replace(/(?<![\w$.])import\s*\(/g, '__import(')
  return text.replace(/\u0001(\d+)\u0002/g, (_, at) => kept[at])
}

function localRequire() {
  return module_.createRequire(path.join(process.cwd(), 'cell.js'))
}
Object.defineProperty(globalThis, 'require', { configurable: true, get: localRequire, set: (value) => Object.defineProperty(globalThis, 'require', { value, writable: true, configurable: true }) })
globalThis.__import = (name) => {
  const local = /^\.{0,2}\//.test(name)
  if (local || module_.isBuiltin(name)) return import(local ? require('node:url').pathToFileURL(path.resolve(name)).href : name)
  try {
    return import(require('node:url').pathToFileURL(localRequire().resolve(name)).href)
  } catch {
    return import(name)
  }
}
Object.defineProperty(globalThis, '__import', { enumerable: false })

function named(name, message) {
  const error = new Error(message)
  error.name = name
  error.stack = `${name}: ${message}`
  return error
}

function stripTypes(code) {
  if (module_.stripTypeScriptTypes) return module_.stripTypeScriptTypes(code, { mode: 'transform' })
  let ts
  try {
    ts = require('typescript')
  } catch {
    throw named('TypeScriptUnavailable', `Node ${process.version} knows no types and there is no package "typescript"; run the code as javascript, or install the package`)
  }
  // A later execution may use what this one imports.
  const kept = parseInt(ts.version) < 5 ? { preserveValueImports: true, importsNotUsedAsValues: 1 } : { verbatimModuleSyntax: true }
  const done = ts.transpileModule(code, { reportDiagnostics: true, compilerOptions: { target: 'ES2022', module: 'ESNext', isolatedModules: true, ...kept } })
  const wrong = (done.diagnostics || []).find((d) => d.category === 1)
  if (wrong) throw named('SyntaxError', ts.flattenDiagnosticMessageText(wrong.messageText, '\n'))
  return done.outputText.replace(/^export \{\};\s*$/m, '')
}

// ---- running ----

function post(method, params) {
  let answer
  session.post(method, params, (error, result) => { answer = error ? { error } : { result } })
  return answer
}

// The value itself, of which the inspector gives out a description.
let caught
function valueOf(remote) {
  if (remote.type === 'undefined') return undefined
  if (remote.objectId) {
    caught = undefined
    globalThis[KEEP] = (value) => { caught = value }
    post('Runtime.callFunctionOn', { objectId: remote.objectId, functionDeclaration: `function () { 'use strict'; globalThis[Symbol.for('sandglass.keep')](this) }` })
    delete globalThis[KEEP]
    return remote.subtype === 'null' ? null : caught
  }
  if (remote.unserializableValue) return vm.runInThisContext(`(${remote.unserializableValue})`)
  return remote.value
}
const KEEP = Symbol.for('sandglass.keep')

const script = new vm.Script(`globalThis[Symbol.for('sandglass.run')]()`)
function evaluate(code) {
  return new Promise((resolve, reject) => {
    interrupt = () => reject(named('KeyboardInterrupt', ''))
    globalThis[Symbol.for('sandglass.run')] = () => {
      session.post('Runtime.evaluate', { expression: code, replMode: true, awaitPromise: true, objectGroup: 'cell' }, (error, answer) => {
        if (error) reject(named('InternalError', error.message))
        else if (answer.exceptionDetails) reject(answer.exceptionDetails.exception ? valueOf(answer.exceptionDetails.exception) : named('Error', answer.exceptionDetails.text))
        else resolve(valueOf(answer.result))
      })
    }
    try {
      script.runInThisContext({ breakOnSigint: true })
    } catch (error) {
      reject(error.code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED' ? named('KeyboardInterrupt', '') : error)
    }
  })
}

function stackOf(error) {
  const lines = String(error.stack || error).split('\n')
  const end = lines.findIndex((line) => /at (Session\.post|new Script|globalThis\.<computed>)|\(?node:inspector|javascript\.cjs/.test(line))
  return (end < 0 ? lines : lines.slice(0, end)).join('\n')
}

function tell(error) {
  if (error instanceof Error || (error && error.stack && error.name)) {
    emit('error', { name: String(error.name || 'Error'), value: String(error.message), traceback: stackOf(error) })
  } else {
    const text = util.inspect(error)
    emit('error', { name: 'Error', value: text, traceback: `Uncaught ${text}` })
  }
}

process.exit = (code) => {
  if (!current) return
  throw named('SystemExit', String(code === undefined ? 0 : code))
}
process.on('uncaughtException', (error) => {
  if (current) tell(error)
  else process.stderr.write(util.inspect(error) + '\n')
})
process.on('unhandledRejection', (error) => {
  if (current) tell(error)
  else process.stderr.write(util.inspect(error) + '\n')
})
process.on('SIGINT', () => { if (interrupt) interrupt() })

function setEnv(env) {
  const before = {}
  for (const [name, value] of Object.entries(env || {})) {
    before[name] = process.env[name]
    if (value === undefined) delete process.env[name]
    else process.env[name] = value
  }
  return before
}

async function execute(request) {
  current = request.id
  const before = setEnv(request.env)
  try {
    const code = language === 'typescript' ? stripTypes(request.code) : request.code
    const value = await evaluate(rewriteImports(code))
    if (value !== undefined) show(bundleOf(value), true)
  } catch (error) {
    try {
      tell(error)
    } catch (second) {
      emit('error', { name: 'Error', value: 'an error that cannot be shown', traceback: '' })
    }
  }
  interrupt = null
  setEnv(before)
  session.post('Runtime.releaseObjectGroup', { objectGroup: 'cell' })
  emit('end_of_execution')
  current = null
}

send({ type: 'ready' })
let pending = Buffer.alloc(0)
let queue = Promise.resolve()
const input = fs.createReadStream(null, { fd: 3, autoClose: false })
input.on('data', (piece) => {
  pending = Buffer.concat([pending, piece])
  for (let end; (end = pending.indexOf(10)) >= 0;) {
    const request = JSON.parse(pending.subarray(0, end))
    pending = pending.subarray(end + 1)
    if (request.op === 'execute') queue = queue.then(() => execute(request))
    else if (request.op === 'env') setEnv(request.env)
  }
})
input.on('end', () => process.reallyExit(0))
