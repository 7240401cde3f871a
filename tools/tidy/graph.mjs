// Cycles of a directed graph given as Map(node -> [nodes]): one list of nodes for every strongly
// connected component of more than one node, and for every node that points to itself.

export function findCycles(edges) {
  const state = {
    edges, index: new Map(), low: new Map(), stack: [], onStack: new Set(), found: [],
  };
  for (const node of edges.keys()) {
    if (!state.index.has(node)) visit(state, node);
  }
  return state.found;
}

// Tarjan's algorithm; recursion is as deep as the longest include chain.
function visit(state, node) {
  const number = state.index.size;
  state.index.set(node, number);
  state.low.set(node, number);
  state.stack.push(node);
  state.onStack.add(node);
  for (const next of state.edges.get(node) ?? []) {
    if (!state.index.has(next)) {
      visit(state, next);
      state.low.set(node, Math.min(state.low.get(node), state.low.get(next)));
    } else if (state.onStack.has(next)) {
      state.low.set(node, Math.min(state.low.get(node), state.index.get(next)));
    }
  }
  if (state.low.get(node) !== number) return;
  const component = state.stack.splice(state.stack.indexOf(node));
  component.forEach((member) => state.onStack.delete(member));
  const selfLoop = (state.edges.get(node) ?? []).includes(node);
  if (component.length > 1 || selfLoop) state.found.push(component);
}
