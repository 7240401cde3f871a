// Figures as text: what the plots of benches share of SVG.

const escaped = (text) => String(text).replace(/[&<>]/g, (c) => `&#${c.charCodeAt(0)};`);

export const fixed = (value) => value.toFixed(1);

export function textAt(x, y, text, attributes = "") {
  return `<text x="${fixed(x)}" y="${fixed(y)}" ${attributes}>${escaped(text)}</text>`;
}

// A white sheet of so many pixels with these elements.
export function drawing(width, height, elements, style) {
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" ` +
    `viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="11">\n` +
    `<style>${style}</style>\n` +
    `<rect width="${width}" height="${height}" fill="#fff"/>\n` +
    `${elements.join("\n")}\n</svg>\n`;
}
