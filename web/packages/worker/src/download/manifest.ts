// weft.json: what a package holds (src/package/manifest.h). Read from a server that may not be
// ours, so that every number has a range and every digest an alphabet.
import { EngineError } from "@weft/engine";
import { DType, dtypeFromName, kOldestPackageFormat, kPackageFormat } from "@weft/wire";

export const kChunkBytes = 1 << 20;
const kMaxBytes = 2 ** 50;
const kMaxLayers = 4096;
const kMaxColumns = 1 << 20;
const kMaxVocabulary = 1 << 24;

export interface BlobInfo {
  readonly byteCount: number;
  readonly chunks: readonly string[]; // SHA-256 of each 1 MiB, hexadecimal
}

export interface LayerInfo {
  readonly program: string; // "" in a package that is not lowered
  readonly blobs: readonly string[];
  readonly weightBytes: number;
  // Counted in f16, what tabs exchange; native workers keep f32 where the weights are f32.
  readonly kvBytesPerPosition: number;
}

export interface Manifest {
  readonly name: string;
  readonly quantisation: string;
  readonly boundaryDtype: DType;
  readonly hiddenColumns: number;
  readonly vocabulary: number;
  // Of what the last layer gives: logits, or rows that become embeddings.
  readonly headColumns: number;
  readonly lowered: boolean;
  readonly layers: readonly LayerInfo[];
  readonly blobs: ReadonlyMap<string, BlobInfo>;
}

type Json = Record<string, unknown>;

function invalid(message: string): EngineError {
  return new EngineError("invalid_data", `The package manifest is not valid: ${message}`);
}

function object(value: unknown, where: string): Json {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Json;
  throw invalid(`${where} is not an object.`);
}

function array(value: unknown, where: string): unknown[] {
  if (Array.isArray(value)) return value;
  throw invalid(`${where} is not an array.`);
}

function text(value: unknown, where: string): string {
  if (typeof value === "string" && value.length <= 256) return value;
  throw invalid(`${where} is not a string of at most 256 characters.`);
}

function number(value: unknown, where: string, least: number, most: number): number {
  const isWhole = typeof value === "number" && Number.isSafeInteger(value);
  if (isWhole && value >= least && value <= most) return value;
  throw invalid(
    `${where} is ${JSON.stringify(value)?.slice(0, 40) ?? "missing"}; expected a whole number ` +
      `from ${least} to ${most}.`,
  );
}

export function isDigest(value: unknown): value is string {
  return typeof value === "string" && /^[0-9a-f]{64}$/.test(value);
}

function digest(value: unknown, where: string): string {
  if (isDigest(value)) return value;
  throw invalid(`${where} is no SHA-256 in 64 hexadecimal digits.`);
}

function parseBlobs(json: Json): Map<string, BlobInfo> {
  const blobs = new Map<string, BlobInfo>();
  for (const [key, value] of Object.entries(json)) {
    const where = `blob ${key.slice(0, 64)}`;
    digest(key, where);
    const fields = object(value, where);
    const byteCount = number(fields["byte_count"], `byte_count of ${where}`, 1, kMaxBytes);
    const chunks = array(fields["chunks"], `chunks of ${where}`).map((chunk) =>
      digest(chunk, `a chunk hash of ${where}`),
    );
    if (chunks.length !== Math.ceil(byteCount / kChunkBytes)) {
      throw invalid(
        `${where} has ${byteCount} bytes and ${chunks.length} chunk hashes; expected ` +
          `${Math.ceil(byteCount / kChunkBytes)}.`,
      );
    }
    blobs.set(key, { byteCount, chunks });
  }
  return blobs;
}

function parseLayer(
  value: unknown,
  index: number,
  lowered: boolean,
  blobs: ReadonlyMap<string, BlobInfo>,
): LayerInfo {
  const where = `layer ${index}`;
  const json = object(value, where);
  number(json["index"], `index of ${where}`, index, index);
  const known = (name: unknown): string => {
    const key = digest(name, `a blob of ${where}`);
    if (!blobs.has(key)) throw invalid(`${where} names blob ${key}, which 'blobs' does not list.`);
    return key;
  };
  return {
    program: lowered ? known(json["program"]) : "",
    blobs: array(json["blobs"], `blobs of ${where}`).map(known),
    weightBytes: number(json["weight_bytes"], `weight_bytes of ${where}`, 0, kMaxBytes),
    kvBytesPerPosition: number(
      json["kv_bytes_per_position"],
      `kv_bytes_per_position of ${where}`,
      0,
      kMaxBytes,
    ),
  };
}

// Packages with matrices in superblocks: q4s, or those of a GGUF file (src/package/manifest.h).
const kNewQuantisations: readonly unknown[] = ["q4s", "mixed-k"];

// Weight blobs that a layer shares with an earlier one, as tied embeddings are shared. A device
// that has both layers holds these bytes once.
export interface SharedBlobs {
  readonly with: number | null; // the earlier layer
  readonly byteCount: number; // at most the later layer's weightBytes
}

export function sharedBlobs({ layers, blobs }: Pick<Manifest, "layers" | "blobs">): SharedBlobs[] {
  const firstReader = new Map<string, number>();
  return layers.map((layer, index) => {
    let other: number | null = null;
    let byteCount = 0;
    for (const digest of layer.blobs) {
      const reader = firstReader.get(digest) ?? index;
      firstReader.set(digest, reader);
      if (reader === index) continue;
      other = reader;
      byteCount += blobs.get(digest)!.byteCount;
    }
    return { with: other, byteCount: Math.min(byteCount, layer.weightBytes) };
  });
}

// Throws EngineError (invalid_data, or unsupported for another format).
export function parseManifest(bytes: Uint8Array): Manifest {
  let parsed: unknown;
  try {
    parsed = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    throw invalid("it is no JSON.");
  }
  const json = object(parsed, "it");
  const format = number(json["format"], "format", 0, 1e9);
  if (format < kOldestPackageFormat || format > kPackageFormat) {
    throw new EngineError(
      "unsupported",
      `The package has format ${format}, this worker reads formats up to ${kPackageFormat}: ` +
        `reload the page, update weft on this device, or convert the model again.`,
    );
  }
  const embeds = json["embedding"] !== undefined;
  const isNew = embeds || kNewQuantisations.includes(json["quantisation"]);
  if (isNew !== (format === kPackageFormat)) {
    const what = isNew && !embeds ? "weights in superblocks" : "'embedding'";
    throw invalid(`it has format ${format} ${isNew ? "and" : "without"} ${what}.`);
  }
  const boundaryDtype = dtypeFromName(text(json["boundary_dtype"], "boundary_dtype"));
  if (
    boundaryDtype !== DType.f16 &&
    boundaryDtype !== DType.bf16 &&
    boundaryDtype !== DType.f32
  ) {
    throw invalid("boundary_dtype is neither f16, bf16 nor f32.");
  }
  const lowered = json["lowered"] === true;
  const blobs = parseBlobs(object(json["blobs"], "blobs"));
  const layers = array(json["layers"], "layers");
  number(layers.length, "the number of layers", 1, kMaxLayers);
  const hiddenColumns = number(json["hidden_columns"], "hidden_columns", 1, kMaxColumns);
  const vocabulary = number(json["vocabulary"], "vocabulary", 1, kMaxVocabulary);
  return {
    name: text(json["name"], "name"),
    quantisation: text(json["quantisation"], "quantisation"),
    boundaryDtype,
    hiddenColumns,
    vocabulary,
    headColumns: embeds ? hiddenColumns : vocabulary,
    lowered,
    layers: layers.map((layer, index) => {
      const info = parseLayer(layer, index, lowered, blobs);
      if (json["quantisation"] !== "f32") return info;
      return { ...info, kvBytesPerPosition: info.kvBytesPerPosition / 2 };
    }),
    blobs,
  };
}
