// Checks of a page by WCAG 2.2, evaluated in the browser. The value is a list of complaints.
(() => {
  const complaints = [];
  const channel = (part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  };
  const luminance = ([red, green, blue]) =>
    0.2126 * channel(red) + 0.7152 * channel(green) + 0.0722 * channel(blue);
  const parse = (text) => (text.match(/[\d.]+/g) ?? []).map(Number);
  const behind = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const colour = parse(getComputedStyle(one).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const seen = (element) => element.checkVisibility() && !element.closest(".unseen, .skip");
  const owns = (element) =>
    [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  let texts = 0;
  for (const element of document.querySelectorAll("body *")) {
    if (["SCRIPT", "STYLE"].includes(element.tagName) || !owns(element) || !seen(element)) continue;
    texts += 1;
    const style = getComputedStyle(element);
    const isDrawn = element instanceof SVGElement;
    const front = luminance(parse(isDrawn ? style.fill : style.color));
    const back = luminance(behind(element));
    const contrast = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
    if (contrast < 4.5)
      complaints.push(`contrast ${contrast.toFixed(2)} of "${element.textContent.slice(0, 40)}"`);
  }
  if (texts < 50) complaints.push(`only ${texts} texts were seen`);

  const ids = new Set();
  for (const { id } of document.querySelectorAll("[id]")) {
    if (ids.has(id)) complaints.push(`the id ${id} is used twice`);
    ids.add(id);
  }
  for (const link of document.querySelectorAll('a[href^="#"]'))
    if (!ids.has(link.getAttribute("href").slice(1)))
      complaints.push(`${link.getAttribute("href")} leads nowhere`);
  for (const figure of document.querySelectorAll("figure")) {
    const name = figure.querySelector("figcaption")?.textContent;
    if (!figure.querySelector("table tbody tr")) complaints.push(`${name} has no table`);
    for (const svg of figure.querySelectorAll("svg"))
      if (svg.getAttribute("role") !== "img" || !svg.getAttribute("aria-label"))
        complaints.push(`${name} is not described`);
  }
  for (const svg of document.querySelectorAll("svg.drawn")) {
    if (!seen(svg)) continue;
    const frame = svg.getBoundingClientRect();
    const words = [...svg.querySelectorAll("text")].filter((text) => text.textContent.trim());
    const boxes = words.map((text) => text.getBoundingClientRect());
    words.forEach((text, at) => {
      const { left, right } = boxes[at];
      if (left < frame.left - 1 || right > frame.right + 1)
        complaints.push(`"${text.textContent.trim()}" leaves its drawing`);
      for (let other = at + 1; other < words.length; other++) {
        const width = Math.min(right, boxes[other].right) - Math.max(left, boxes[other].left);
        const { top, bottom } = boxes[at];
        const height = Math.min(bottom, boxes[other].bottom) - Math.max(top, boxes[other].top);
        if (width > 1 && height > 3)
          complaints.push(`"${text.textContent.trim()}" is on "${words[other].textContent.trim()}"`);
      }
    });
  }
  for (const table of document.querySelectorAll("table")) {
    const columns = table.querySelectorAll("thead th").length;
    for (const row of table.querySelectorAll("tbody tr"))
      if (row.cells.length !== columns) complaints.push(`a row of ${table.caption?.textContent}`);
  }
  for (const input of document.querySelectorAll("input, select"))
    if (!input.labels.length) complaints.push(`${input.outerHTML} has no label`);
  let last = 0;
  for (const heading of document.querySelectorAll("h1, h2, h3, h4")) {
    const level = Number(heading.tagName[1]);
    if (level > last + 1) complaints.push(`the heading "${heading.textContent}" skips a level`);
    last = level;
  }
  for (const target of document.querySelectorAll("input, select, summary")) {
    if (!seen(target)) continue;
    const { width, height } = (target.labels?.[0] ?? target).getBoundingClientRect();
    if (width < 24 || height < 24) complaints.push(`${target.outerHTML} is smaller than 24 pixels`);
  }
  return complaints;
})()
