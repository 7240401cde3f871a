// Grammars of structured output against a validator of JSON Schema that is not ours (ajv): what is
// drawn at random through the masks is valid, documents that are valid are accepted, and changed
// ones are refused exactly where the validator refuses them.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { SchemaMaker } from '../../tools/grammar_oracle/schemas.mjs';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const weft = process.env.WEFT;
const tokenizer = join(root, 'models', 'weft-tiny', 'tokenizer.json');
const skip = !weft ? 'WEFT does not name the weft program'
  : existsSync(tokenizer) ? false : `${tokenizer} is not there`;
const kSchemas = Number(process.env.WEFT_GRAMMAR_SCHEMAS ?? 500);
const kSamples = 5, kDocuments = 6, kChanged = 10;

function ask(questions) {
  const input = questions.map((question) => JSON.stringify(question)).join('\n');
  const { status, stdout, stderr } = spawnSync(weft, ['grammar', '--tokenizer', tokenizer],
    { input, encoding: 'utf8', maxBuffer: 1 << 30 });
  assert.equal(status, 0, stderr);
  const answers = stdout.trim().split('\n').map((line) => JSON.parse(line));
  assert.equal(answers.length, questions.length);
  return answers;
}

test(`${kSchemas} schemas: what is drawn is valid, what is valid is accepted`, { skip }, () => {
  const maker = new SchemaMaker(20261126);
  const cases = Array.from({ length: kSchemas }, (_, seed) => {
    const { schema, make } = maker.schema();
    const isValid = maker.validator(schema);
    const documents = Array.from({ length: kDocuments }, () => make());
    const changed = Array.from({ length: kChanged }, (__, i) =>
      maker.changed(documents[i % documents.length]));
    const all = [...documents, ...changed];
    const check = [...all.map((one) => JSON.stringify(one)),
      ...documents.map((one) => JSON.stringify(one, null, 2)),
      ...documents.map((one) => JSON.stringify(one, null, '\t'))];
    const question = { json: schema, check, sample: kSamples, seed };
    return { schema, isValid, documents, all, question };
  });
  const answers = ask(cases.map((one) => one.question));
  let valid = 0;
  let invalid = 0;
  cases.forEach(({ schema, isValid, documents, all, question }, i) => {
    const about = `of ${JSON.stringify(schema)}`;
    const { error, accepted, samples } = answers[i];
    assert.equal(error, undefined, `${error} ${about}`);
    documents.forEach((one) => assert(isValid(one), `made: ${JSON.stringify(one)} ${about}`));
    question.check.forEach((text, k) => {
      const expected = k < all.length ? isValid(all[k]) : true;
      valid += expected ? 1 : 0;
      invalid += expected ? 0 : 1;
      assert.equal(accepted[k], expected, `${text} ${about}`);
    });
    assert.equal(samples.length, kSamples);
    for (const sample of samples) {
      assert.doesNotThrow(() => JSON.parse(sample), `${sample} ${about}`);
      assert(isValid(JSON.parse(sample)), `drawn: ${sample} ${about}`);
    }
  });
  // The changes are worth something only if they reach both sides.
  assert(valid > kSchemas * 20, `${valid} valid documents`);
  assert(invalid > kSchemas * 3, `${invalid} changed documents are invalid`);
});

test('what is drawn from other grammars is of them', { skip }, () => {
  const questions = [
    { regex: '[A-Z][a-z]{2,8}( [A-Z]\\.)?', sample: 50 },
    { choice: ['yes', 'no', 'été'], sample: 50 },
    { json_object: true, sample: 50 },
    { grammar: 'root ::= item ("," item)*\nitem ::= [0-9]+ | "(" root ")"', sample: 50 },
    { json: { type: 'object', properties: { n: { $ref: '#' } }, required: ['n'] } },
  ];
  const [regex, choice, object, gbnf, endless] = ask(questions);
  for (const text of regex.samples) assert.match(text, /^[A-Z][a-z]{2,8}( [A-Z]\.)?$/);
  assert.deepEqual([...new Set(choice.samples)].sort(), ['no', 'yes', 'été']);
  for (const text of object.samples) assert.equal(typeof JSON.parse(text), 'object');
  for (const text of gbnf.samples) {
    assert.match(text, /^[0-9(),]+$/);
    assert.doesNotThrow(() => JSON.parse(`[${text.replaceAll('(', '[').replaceAll(')', ']')
      .replaceAll(/0+(\d)/g, '1$1')}]`), text);
  }
  assert.match(endless.error, /has no text at all/);
});
