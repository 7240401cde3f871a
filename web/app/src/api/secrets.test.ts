import { expect, it } from "vitest";
import { readHash } from "./secrets.ts";

const kSecret = "0123456789abcdef0123456789abcdef";
const kOddSecret = "a+b/c=0123456789abcdef";

it.each([
  ["/", `#key=${kSecret}`, { apiKey: kSecret }],
  ["/join", `#${kSecret}`, { joinToken: kSecret }],
  ["/join", `#key=${kSecret}`, { apiKey: kSecret }],
  ["/", `#${kSecret}`, {}],
  ["/join", "#main", {}],
  ["/join", "", {}],
  ["/", "#key=short", {}],
  ["/", "#key=", {}],
  ["/join", "#<script>alert(1)</script>", {}],
  ["/join", "#%E0%A4%A", {}],
  ["/", `#key=${encodeURIComponent(kOddSecret)}`, { apiKey: kOddSecret }],
])("%s%s", (path, hash, secrets) => {
  expect(readHash(path, hash)).toEqual(secrets);
});
