// The vocabularies that llama.cpp publishes, put into small models: the tokenizer.json that a
// package gets for them gives the published ids in @huggingface/tokenizers, and chats know their
// template and end tokens. (weft's own tokenizer is compared in vocabulary_spec_test.cc.)
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import {
  readVocabulary,
  Tokenizer,
  writeVocabularyModel,
} from '../../tools/convert_oracle/gguf_vocabulary.mjs';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const weft = process.env.WEFT;
const data = join(process.env.WEFT_DATA ?? join(root, 'build', 'test-data'), 'tokenizers');
const work = mkdtempSync(join(tmpdir(), 'weft-gguf-vocabulary-'));
after(() => rmSync(work, { recursive: true, force: true }));

function convert(name, extra = {}) {
  const { metadata, tokens } = readVocabulary(join(data, `vocab-${name}.gguf`));
  const source = join(work, `${name}.gguf`);
  const target = join(work, name);
  writeVocabularyModel(source, { ...metadata, ...extra }, tokens);
  const run = spawnSync(weft, ['convert', source, target, '--force'], { encoding: 'utf8' });
  assert.equal(run.status, 0, run.stderr);
  return (file) => JSON.parse(readFileSync(join(target, file), 'utf8'));
}

const names = ['gpt-2', 'llama-bpe', 'qwen2', 'deepseek-llm', 'llama-spm'];
if (!weft || !existsSync(join(data, 'vocab-gpt-2.gguf'))) {
  const reason = weft ? `no vocabularies in ${data}` : 'WEFT does not name the weft program';
  test('GGUF vocabularies', { skip: reason }, () => {});
} else {
  for (const name of names) {
    test(`${name}: the tokenizer.json of the package gives the published ids`, () => {
      const read = convert(name);
      const tokenizer = new Tokenizer(read('tokenizer.json'), read('tokenizer_config.json'));
      const path = join(data, `vocab-${name}.gguf`);
      const texts = readFileSync(`${path}.inp`, 'utf8').split('\n__ggml_vocab_test__\n');
      const lines = readFileSync(`${path}.out`, 'utf8').split('\n');
      let compared = 0;
      for (const [i, text] of texts.entries()) {
        if (lines[i] === undefined) break;
        const expected = lines[i].trim().split(/\s+/).filter(Boolean).map(Number);
        const { ids } = tokenizer.encode(text, { add_special_tokens: false });
        assert.deepEqual(ids, expected, JSON.stringify(text));
        ++compared;
      }
      assert.ok(compared >= 40, `${compared}`);
    });
  }

  test('chats know the template and the tokens that end a turn', () => {
    const template = '{% for m in messages %}{{ m.content }}{% endfor %}';
    const read = convert('llama-bpe', { 'tokenizer.chat_template': { text: template } });
    const config = read('tokenizer_config.json');
    assert.equal(config.chat_template, template);
    assert.equal(config.bos_token, '<|begin_of_text|>');
    const { eos_token_id: ends } = read('generation_config.json');
    assert.ok(ends.includes(128009), JSON.stringify(ends)); // <|eot_id|>
    const { ids } = new Tokenizer(read('tokenizer.json'), config).encode('Hello');
    assert.equal(ids[0], 128000);
  });
}
