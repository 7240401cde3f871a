// Random JSON Schemas with documents that are made to fit them, and documents that were changed
// somewhere. ajv says of each whether it is valid; weft's grammars are compared with that
// (tests/conformance/grammar.mjs). Objects say what they think of other properties and arrays what
// of further elements, because weft writes none where a schema says nothing.
import Ajv from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';

// Numbers below `bound`, the same ones for a seed (mulberry32).
export function randomNumbers(seed) {
  let state = seed >>> 0;
  return (bound) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % bound;
  };
}

const kStrings = [
  '', 'a', 'ab', 'abc', 'foo', 'bar', 'baz', 'é€😀', 'a"b', 'back\\slash', 'line\nend', '\u0001',
  '555-1234', 'x y', 'the quick brown fox', '0', 'true',
];
const kPatterns = [
  '^[a-z]{2,5}$', 'a.c', '^(foo|ba[rz])+$', '\\d{3}-\\d{4}', '^\\S+$', '^[^"\\\\]*$', '[\\n"]',
  '^$|^x', 'o{2}',
];
const kFormats = {
  date: ['2024-02-29', '2023-02-29', '1999-12-31', '2024-13-01', '24-01-01'],
  time: ['23:59:59Z', '00:00:00.25+05:30', '24:00:00Z', '12:00:00'],
  'date-time': ['2024-02-29T12:00:00Z', '2023-02-29T12:00:00Z', '2024-01-01'],
  uuid: ['123e4567-e89b-12d3-a456-426614174000', '123e4567e89b12d3a456426614174000'],
  email: ['a.b@example.com', 'a@b', 'nobody'],
  ipv4: ['127.0.0.1', '256.1.1.1', '1.2.3'],
  ipv6: ['::1', '2001:db8::8:800:200c:417a', '1:2:3:4:5:6:7:8', '1::2::3', ':::'],
  hostname: ['example.com', 'a-b.c', '-a.b'],
  duration: ['P3Y6M4D', 'PT5M', 'P2W', 'P', '5M'],
  uri: ['https://example.com/a?b=c#d', 'not a uri', '//example.com'],
};
const kNumbers = [0, 1, -1, 7, 10, 99, 100, -5, 12345, 0.5, -0.25, 3.75, 123456789012, 0.000025];
const kNames = ['a', 'b', 'name', 'n"q', 'é', 'kind', 'ab', 'abc', 'x_1'];

export class SchemaMaker {
  #random;
  #ajv = new Ajv({ strict: false, allErrors: false, logger: false });

  constructor(seed) {
    this.#random = randomNumbers(seed);
    addFormats(this.#ajv);
  }

  // A function of documents. Schemas are compiled anew, since references name places in them.
  validator(schema) {
    return this.#ajv.compile(schema);
  }

  below(bound) {
    return this.#random(bound);
  }
  pick(list) {
    return list[this.below(list.length)];
  }
  #chance(percent) {
    return this.below(100) < percent;
  }

  // {schema, make}: make() is a document that was made to fit.
  schema() {
    if (this.#chance(12)) return this.#recursive();
    const made = this.#chance(70) ? this.#object(3) : this.#some(3);
    return made;
  }

  #some(depth) {
    const leaves = ['string', 'integer', 'number', 'boolean', 'null', 'enum', 'const', 'types'];
    const inner = ['object', 'object', 'array', 'array', 'tuple', 'anyOf', 'oneOf', 'allOf', 'any'];
    const kind = this.pick(depth > 0 ? [...leaves, ...inner] : leaves);
    return this[`_${kind}`]?.(depth) ?? this.#plain(kind, depth);
  }

  #plain(kind, depth) {
    if (kind === 'object') return this.#object(depth);
    if (kind === 'array') return this.#array(depth);
    if (kind === 'tuple') return this.#tuple(depth);
    if (kind === 'anyOf') return this.#anyOf(depth);
    if (kind === 'oneOf') return this.#oneOf(depth);
    if (kind === 'allOf') return this.#allOf(depth);
    if (kind === 'string') return this.#string();
    if (kind === 'integer' || kind === 'number') return this.#number(kind);
    if (kind === 'boolean') return { schema: { type: kind }, make: () => this.#chance(50) };
    if (kind === 'null') return { schema: { type: kind }, make: () => null };
    if (kind === 'any') return { schema: this.pick([true, {}]), make: () => this.value(2) };
    if (kind === 'types') return this.#types();
    const values = Array.from({ length: 1 + this.below(4) }, () => this.value(1));
    return kind === 'const'
      ? { schema: { const: values[0] }, make: () => values[0] }
      : { schema: { enum: values }, make: () => this.pick(values) };
  }

  // Any JSON value.
  value(depth) {
    const kind = this.below(depth > 0 ? 6 : 4);
    if (kind === 0) return this.pick(kStrings);
    if (kind === 1) return this.pick(kNumbers);
    if (kind < 4) return this.pick([null, true, false, 'text', 3]);
    const count = this.below(3);
    if (kind === 4) return Array.from({ length: count }, () => this.value(depth - 1));
    const names = Array.from({ length: count }, () => this.pick(kNames));
    return Object.fromEntries(names.map((name) => [name, this.value(depth - 1)]));
  }

  #string() {
    const kind = this.below(4);
    if (kind === 0) return { schema: { type: 'string' }, make: () => this.pick(kStrings) };
    if (kind === 1) {
      const minLength = this.below(4), maxLength = minLength + this.below(6);
      const schema = { type: 'string', minLength };
      if (this.#chance(60)) schema.maxLength = maxLength;
      const make = () => {
        const count = minLength + this.below(maxLength - minLength + 1);
        return [...'é😀"x\nyz€q\\'].slice(0, count).join('');
      };
      return { schema, make };
    }
    if (kind === 2) {
      const pattern = this.pick(kPatterns);
      const fits = kStrings.filter((text) => new RegExp(pattern, 'u').test(text));
      return { schema: { type: 'string', pattern }, make: () => this.pick(fits) };
    }
    const format = this.pick(Object.keys(kFormats));
    return { schema: { type: 'string', format }, make: () => kFormats[format][0] };
  }

  #number(type) {
    const schema = { type };
    const least = this.below(300) - 150, most = least + this.below(200);
    const kind = this.below(4);
    if (kind === 1) schema[this.pick(['minimum', 'exclusiveMinimum'])] = least - 1;
    if (kind === 2) schema[this.pick(['maximum', 'exclusiveMaximum'])] = most + 1;
    if (kind === 3) {
      schema[this.pick(['minimum', 'exclusiveMinimum'])] = least - 1;
      schema[this.pick(['maximum', 'exclusiveMaximum'])] = most + 1;
    }
    const make = () => {
      const whole = least + this.below(most - least + 1);
      return type === 'number' && this.#chance(40) && whole < most ? whole + 0.25 : whole;
    };
    return { schema, make };
  }

  #types() {
    const other = this.#chance(50) ? this.#string() : this.#number('integer');
    const schema = { ...other.schema, type: [other.schema.type, 'null'] };
    return { schema, make: () => (this.#chance(50) ? other.make() : null) };
  }

  #object(depth) {
    const names = kNames.filter(() => this.#chance(45));
    const properties = names.map((name) => [name, this.#some(depth - 1)]);
    const required = names.filter(() => this.#chance(50));
    const schema = { type: 'object', properties: {} };
    for (const [name, { schema: inner }] of properties) schema.properties[name] = inner;
    if (required.length > 0 || this.#chance(30)) schema.required = required;
    const others = this.pick([false, false, true, this.#some(0)]);
    schema.additionalProperties = typeof others === 'boolean' ? others : others.schema;
    const make = () => {
      const made = {};
      for (const [name, inner] of properties)
        if (required.includes(name) || this.#chance(50)) made[name] = inner.make();
      if (others !== false && this.#chance(50))
        made[`other${this.below(5)}`] = others === true ? this.value(1) : others.make();
      return made;
    };
    return { schema, make };
  }

  #array(depth) {
    const items = this.#some(depth - 1);
    const minItems = this.below(3), maxItems = minItems + this.below(3);
    const schema = { type: 'array', items: items.schema };
    if (this.#chance(60)) schema.minItems = minItems;
    if (this.#chance(60)) schema.maxItems = maxItems;
    const count = () => minItems + this.below(maxItems - minItems + 1);
    return { schema, make: () => Array.from({ length: count() }, () => items.make()) };
  }

  #tuple(depth) {
    const first = Array.from({ length: 1 + this.below(3) }, () => this.#some(depth - 1));
    const rest = this.pick([false, this.#some(0)]);
    const schema = { type: 'array', prefixItems: first.map((one) => one.schema) };
    schema.items = rest === false ? false : rest.schema;
    if (this.#chance(50)) schema.minItems = first.length;
    const make = () => [
      ...first.map((one) => one.make()),
      ...(rest !== false && this.#chance(50) ? [rest.make()] : []),
    ];
    return { schema, make };
  }

  #anyOf(depth) {
    const ways = Array.from({ length: 2 + this.below(2) }, () => this.#some(depth - 1));
    const schema = { anyOf: ways.map((way) => way.schema), description: 'one of some' };
    return { schema, make: () => this.pick(ways).make() };
  }

  #either(keyword, ways) {
    return {
      schema: { [keyword]: ways.map((way) => way.schema) }, make: () => this.pick(ways).make(),
    };
  }

  // By types, or by a property that tells them apart.
  #oneOf(depth) {
    if (this.#chance(50)) {
      const ways = [this.#string(), this.#number('number'), this.#array(depth)];
      return this.#either('oneOf', ways);
    }
    const ways = ['cat', 'dog', 'cow'].map((kind) => {
      const { schema, make } = this.#object(depth - 1);
      const properties = { tag: { const: kind }, ...schema.properties };
      const required = ['tag', ...(schema.required ?? [])];
      return {
        schema: { ...schema, properties, required },
        make: () => ({ tag: kind, ...make() }),
      };
    });
    return this.#either('oneOf', ways);
  }

  #allOf(depth) {
    const base = this.#object(depth - 1);
    base.schema.additionalProperties = true;
    const own = this.#some(0), bound = this.below(50);
    const schema = {
      allOf: [
        base.schema,
        { properties: { own: own.schema, size: { type: 'integer', minimum: bound } },
          required: ['own'] },
      ],
      properties: { own: true, size: { maximum: bound + 5 } },
    };
    const make = () => {
      const made = { own: own.make() };
      if (this.#chance(50)) made.size = bound + this.below(6);
      return { ...made, ...base.make() };
    };
    return { schema, make };
  }

  // A tree or a list, by references.
  #recursive() {
    const leaf = this.#some(1);
    const isTree = this.#chance(50);
    const next = isTree
      ? { type: 'array', items: { $ref: '#/$defs/node' }, maxItems: 3 }
      : { anyOf: [{ type: 'null' }, { $ref: '#/$defs/node' }] };
    const node = {
      type: 'object', properties: { leaf: leaf.schema, next }, required: ['leaf', 'next'],
      additionalProperties: false,
    };
    const make = (depth = 2) => {
      const deeper = depth > 0 && this.#chance(60);
      const end = isTree ? [] : null;
      const inner = deeper ? make(depth - 1) : end;
      return { leaf: leaf.make(), next: isTree && deeper ? [inner, make(0)] : inner };
    };
    return { schema: { $ref: '#/$defs/node', $defs: { node } }, make };
  }

  // The document with something changed somewhere.
  changed(document) {
    const places = [[]];
    const collect = (value, path) => {
      if (value === null || typeof value !== 'object') return;
      for (const key of Object.keys(value)) {
        places.push([...path, key]);
        collect(value[key], [...path, key]);
      }
    };
    collect(document, []);
    const copy = structuredClone({ root: document });
    const path = ['root', ...this.pick(places)];
    const last = path.pop();
    const parent = path.reduce((value, key) => value[key], copy);
    parent[last] = this.#changedValue(parent[last]);
    return copy.root;
  }

  #changedValue(value) {
    if (this.#chance(30)) return this.value(1);
    if (typeof value === 'number') return value + this.pick([1, -1, 0.5, 100, -200]);
    if (typeof value === 'string') {
      const same = Object.values(kFormats).find((texts) => texts.includes(value));
      return this.pick([`${value}x`, [...value].slice(1).join(''), ...(same ?? kStrings)]);
    }
    if (Array.isArray(value))
      return this.pick([[...value, ...value.slice(-1)], value.slice(0, -1), [...value, null]]);
    if (value !== null && typeof value === 'object') {
      const keys = Object.keys(value);
      if (this.#chance(50)) return { ...value, [`zz${this.below(9)}`]: this.value(1) };
      const gone = this.pick(keys);
      return Object.fromEntries(Object.entries(value).filter(([key]) => key !== gone));
    }
    return this.value(0);
  }
}
