// Copies a text. Pages that came over plain http have no navigator.clipboard; there the old command
// of browsers does it, which is deprecated and will stay.

// Rejects when the browser does not copy.
export async function copyText(text: string): Promise<void> {
  // Undefined in an insecure context, whatever the types say.
  const clipboard = navigator.clipboard as Clipboard | undefined;
  if (clipboard) return clipboard.writeText(text);
  const field = document.createElement("textarea");
  field.value = text;
  field.readOnly = true; // no keyboard comes up on a phone
  field.style.position = "fixed";
  field.style.opacity = "0";
  const focused = document.activeElement;
  document.body.append(field);
  field.select();
  const isCopied = document.execCommand("copy");
  field.remove();
  if (focused instanceof HTMLElement) focused.focus();
  if (!isCopied) throw new Error("The browser did not copy.");
}
