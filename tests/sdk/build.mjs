// SPDX-License-Identifier: Apache-2.0
// Checks of client.mjs about templates that are built.
import assert from 'node:assert/strict'
import { mkdtempSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'

const unique = () => `js-${Math.random().toString(36).slice(2, 10)}`

async function remove(id) {
  const url = process.env.E2B_API_URL ?? `https://api.${process.env.E2B_DOMAIN}`
  const reply = await fetch(`${url}/templates/${id}`, { method: 'DELETE', headers: { 'X-API-Key': process.env.E2B_API_KEY } })
  assert.equal(reply.status, 204)
}

export const builds = ({ e2b, template, need, rejects }) => ({
  async 'a template is built and its start command is running'() {
    const { Template, Sandbox } = e2b
    need(Template?.assignTags, 'builds')
    const folder = mkdtempSync('/tmp/sg-build-'), name = unique()
    try {
      mkdirSync(path.join(folder, 'site'))
      writeFileSync(path.join(folder, 'site', 'page'), 'from the context\n')
      const made = Template({ fileContextPath: folder }).fromTemplate(template).copy('site', '/srv/site')
        .setEnvs({ GREETING: 'hello' }).setWorkdir('/srv').runCmd('echo $GREETING > /tmp/made')
        .setStartCmd('cd /srv/site && python3 -m http.server 8123', e2b.waitForPort(8123))
      const lines = [], options = { cpuCount: 1, memoryMB: 512 }
      const build = await Template.build(made, name, { ...options, onBuildLogs: (line) => lines.push(line.message) })
      const again = await Template.build(made, name, options)
      assert.ok(lines.some((line) => line.includes('RUN echo $GREETING')), lines.join('\n'))
      assert.equal(again.templateId, build.templateId)
      assert.equal(await Template.exists(name), true)
      assert.equal(await Template.exists(`${name}-none`), false)
      const box = await Sandbox.create(name)
      const done = await box.commands.run('cat /tmp/made; pwd; curl -s http://127.0.0.1:8123/page; echo $GREETING')
      assert.equal(done.stdout, 'hello\n/srv\nfrom the context\nhello\n')
      await box.kill()
      await remove(build.templateId)
    } finally {
      rmSync(folder, { recursive: true })
    }
  },
  async 'a build that fails says where'() {
    need(e2b.Template?.assignTags, 'builds')
    const made = e2b.Template().fromBaseImage().runCmd('echo fine').runCmd('echo broken; exit 9')
    const error = await rejects(e2b.Template.build(made, unique()), 'BuildError')
    assert.match(error.message, /exit status 9/)
  },
  async 'a template is tagged'() {
    const { Template, Sandbox } = e2b
    need(Template?.assignTags, 'tags')
    const name = unique()
    const build = await Template.build(Template().fromTemplate(template).runCmd('echo 1 > /tmp/v'), `${name}:v1`)
    await Template.assignTags(`${name}:v1`, ['stable', 'default'])
    assert.deepEqual((await Template.getTags(name)).map((t) => t.tag).sort(), ['default', 'stable', 'v1'])
    await Template.removeTags(name, 'stable')
    const box = await Sandbox.create(`${name}:v1`)
    assert.equal((await box.commands.run('cat /tmp/v')).stdout, '1\n')
    await box.kill()
    await remove(build.templateId)
  },
})
