// Faults of chat templates that people reported about similar programs, tried with `weft render`:
// tests/reported/files holds templates, tests/reported/templates.json what Jinja2 makes of them.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const reported = join(dirname(fileURLToPath(import.meta.url)), '..', 'reported');
const cases = JSON.parse(readFileSync(join(reported, 'templates.json'), 'utf8'));

function render(source, variables) {
  const { status, stdout, stderr } = spawnSync(
    process.env.WEFT,
    ['render', join(reported, 'files', source)],
    { input: JSON.stringify(variables), encoding: 'utf8' },
  );
  return { status, stdout, stderr };
}

for (const [name, { variables, text, error }] of Object.entries(cases)) {
  test(name, () => {
    const got = render(`${name}.jinja`, variables);
    if (error === undefined) {
      assert.equal(got.stdout, text, got.stderr);
    } else {
      // It refuses what it is given, or it is no template.
      assert.ok([2, 4].includes(got.status), got.stdout);
      assert.equal(got.stdout, '');
    }
  });
}

test('16: an unknown tag is named with its line', () => {
  assert.match(render('16-passes-unknown-tag.jinja', {}).stderr, /Line 2.*frobnicate/);
});

test('03: the template called tool_use is taken where there are tools', () => {
  const messages = [{ role: 'user', content: 'Hi' }];
  const tools = [{ type: 'function', function: { name: 'lamp' } }];
  assert.equal(render('03-named-templates', { messages, tools }).stdout, '<tool>lamp</tool>Hi');
  assert.equal(render('03-named-templates', { messages }).stdout, 'Hi');
});

test('04: chat_template.json is read', () => {
  const messages = [{ role: 'user', content: 'Hi' }];
  assert.equal(render('04-chat_template-json', { messages }).stdout, '[user] Hi</s>');
});

test('14: tools are none where there are none', () => {
  assert.equal(
    render('14-tools-none.jinja', { messages: [{ role: 'user', content: 'Hi' }] }).stdout,
    'Hi',
  );
});
