// The first script of a page in WebKit, whose driver does not tell what the console says: keeps
// errors where webkit.mjs finds them, over navigations, too.
{
  const kKey = "weft tests: errors";
  const keep = (text) => {
    const kept = JSON.parse(sessionStorage[kKey] ?? "[]");
    sessionStorage[kKey] = JSON.stringify([...kept, text]);
  };
  // With `true`, resources that could not be loaded, too; not those that a page is left before.
  let isLeft = false;
  addEventListener("beforeunload", () => (isLeft = true));
  addEventListener("error", ({ message, target }) => {
    if (message !== undefined) keep(message);
    else if (!isLeft) keep(`not loaded: ${target.src ?? target.href}`);
  }, true);
  addEventListener("unhandledrejection", ({ reason }) => keep(`unhandled: ${reason}`));
  addEventListener("securitypolicyviolation", ({ violatedDirective, blockedURI }) =>
    keep(`the policy ${violatedDirective} refuses ${blockedURI}`));
  const { error } = console;
  console.error = (...said) => {
    keep(said.join(" "));
    error.apply(console, said);
  };
}
