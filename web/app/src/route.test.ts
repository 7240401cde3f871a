import { expect, it } from "vitest";
import { routeOf } from "./route.ts";

it.each([
  ["/", "/"], ["/chat", "/"], ["/swarm", "/swarm"], ["/swarm/", "/swarm"], ["/join", "/join"],
  ["/joining", "/"], ["/certificate", "/certificate"], ["/admin/", "/admin"], ["", "/"],
  ["//", "/"],
])("%s shows %s", (path, route) => {
  expect(routeOf(path)).toBe(route);
});
