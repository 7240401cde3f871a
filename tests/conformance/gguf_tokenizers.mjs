// The vocabularies that llama.cpp publishes, put into small models: the tokenizer.json that a
// package gets for them gives the published ids in @huggingface/tokenizers, and chats know their
// template and end tokens. (weft's own tokenizer is compared in vocabulary_spec_test.cc.)
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';
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
import { precompiledCharsmap } from '../../tools/text_oracle/charsmap.mjs';
import { scriptTexts } from '../../tools/text_oracle/native_variants.mjs';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const weft = process.env.WEFT;
const data = join(process.env.WEFT_DATA ?? join(root, 'build', 'test-data'), 'tokenizers');
const work = mkdtempSync(join(tmpdir(), 'weft-gguf-vocabulary-'));
after(() => rmSync(work, { recursive: true, force: true }));

function convert(name, extra = {}) {
  const { metadata, tokens } = readVocabulary(join(data, `vocab-${name}.gguf`));
  return convertVocabulary(name, { ...metadata, ...extra }, tokens);
}

function convertVocabulary(name, metadata, tokens) {
  const source = join(work, `${name}.gguf`);
  const target = join(work, name);
  writeVocabularyModel(source, metadata, tokens);
  const run = spawnSync(weft, ['convert', source, target, '--force'], { encoding: 'utf8' });
  assert.equal(run.status, 0, run.stderr);
  return (file) => JSON.parse(readFileSync(join(target, file), 'utf8'));
}

// An array of GGUF's: type of the items, and the bytes of each.
function list(type, items) {
  const head = Buffer.alloc(16);
  head.writeUInt32LE(9);
  head.writeUInt32LE(type, 4);
  head.writeBigUInt64LE(BigInt(items.length), 8);
  return { raw: Buffer.concat([head, ...items]) };
}
function bytesOf(text) {
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(Buffer.byteLength(text)));
  return Buffer.concat([length, Buffer.from(text)]);
}
function bytesOfFloat(number) {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatLE(number);
  return bytes;
}

// Letters and pairs of letters, with what a Unigram file of T5's kind says beside them.
function unigramVocabulary() {
  const letters = [...'abcdefghijklmnopqrstuvwxyz.,'];
  const pairs = letters.flatMap((a, i) => letters.slice(i % 7, i % 7 + 6).map((b) => a + b));
  const words = ['the', 'and', ...letters.slice(0, 9), ...pairs.slice(0, 60)]
    .map((word) => `\u2581${word}`);
  const pieces = [...new Set(['\u2581', ...letters, ...pairs, ...words])];
  const vocab = [['<pad>', 0], ['</s>', 0], ['<unk>', 0],
    ...pieces.map((piece, i) => [piece, Math.fround(-2 - piece.length - (i * 37 % 101) / 64)])];
  const types = vocab.map((_, id) => (id < 2 ? 3 : id === 2 ? 2 : 1));
  const map = precompiledCharsmap([
    ['\t', ' '], ['\u00a0', ' '], ['\ufb01', 'fi'], ['A', 'a'], ['B', 'b'], ['C', 'c']]);
  return { vocab, types, map };
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

  // Where the two mean the same: no text here has marks or control tokens.
  test('a Unigram vocabulary gives the ids of the native library', async () => {
    const { vocab, types, map } = unigramVocabulary();
    convertVocabulary('unigram', {
      'tokenizer.ggml.model': { text: 't5' },
      'tokenizer.ggml.tokens': list(8, vocab.map(([piece]) => bytesOf(piece))),
      'tokenizer.ggml.scores': list(6, vocab.map(([, score]) => bytesOfFloat(score))),
      'tokenizer.ggml.token_type': list(0, types.map((type) => Buffer.from([type]))),
      'tokenizer.ggml.precompiled_charsmap': list(0, [...Buffer.from(map, 'base64')].map(
        (byte) => Buffer.from([byte]))),
      'tokenizer.ggml.add_space_prefix': { bool: true },
      'tokenizer.ggml.remove_extra_whitespaces': { bool: true },
    }, vocab.length);
    const native = createRequire(join(root, 'tools/package.json'))('@anush008/tokenizers');
    const tokenizer = native.Tokenizer.fromString(JSON.stringify({
      version: '1.0', truncation: null, padding: null, added_tokens: [], post_processor: null,
      normalizer: { type: 'Sequence', normalizers: [
        { type: 'Precompiled', precompiled_charsmap: map },
        { type: 'Strip', strip_left: true, strip_right: true },
        { type: 'Replace', pattern: { Regex: ' {2,}' }, content: ' ' }] },
      pre_tokenizer: {
        type: 'Metaspace', replacement: '\u2581', prepend_scheme: 'always', split: false },
      decoder: null, model: { type: 'Unigram', unk_id: 2, vocab, byte_fallback: false },
    }));
    const texts = scriptTexts(400, 5).concat('the  cab,\tA fi\u00a0sh ', '  ', 'x the\u2581and')
      .map((text) => text.replace(/[^a-zA-C .,\t\u00a0\u2581\ufb01\u4e00-\u9fff]/g, ' '));
    const input = texts.map((text) => `${JSON.stringify(text)}\n`).join('');
    const ours = spawnSync(weft, ['tokenize', '--add-special', join(work, 'unigram')],
      { input, encoding: 'utf8' });
    assert.equal(ours.status, 0, ours.stderr);
    const lines = ours.stdout.trim().split('\n');
    for (const [i, text] of texts.entries()) {
      const encoding = await tokenizer.encode(text, null, { addSpecialTokens: false });
      assert.deepEqual(JSON.parse(lines[i]), [...encoding.getIds(), 1], JSON.stringify(text));
    }
  });

  test('a character map that is no bytes, or a broken one, is refused by name', () => {
    const { vocab, types } = unigramVocabulary();
    const number = (value) => Buffer.from([value & 255, value >> 8, 0, 0]);
    for (const [type, items, reason] of [
      [4, [number(300)], /precompiled_charsmap must be bytes/],
      [0, [Buffer.from([1]), Buffer.from([2])], /character map has 2 bytes/],
    ]) {
      const source = join(work, 'broken.gguf');
      writeVocabularyModel(source, {
        'tokenizer.ggml.model': { text: 't5' },
        'tokenizer.ggml.tokens': list(8, vocab.map(([piece]) => bytesOf(piece))),
        'tokenizer.ggml.scores': list(6, vocab.map(([, score]) => bytesOfFloat(score))),
        'tokenizer.ggml.token_type': list(0, types.map((one) => Buffer.from([one]))),
        'tokenizer.ggml.precompiled_charsmap': list(type, items),
      }, vocab.length);
      const run = spawnSync(weft, ['convert', source, join(work, 'broken')], { encoding: 'utf8' });
      assert.notEqual(run.status, 0);
      assert.match(run.stderr, reason);
    }
  });

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
