// What is wrong with how this page looks: a list of sentences.
(() => {
  const smallest = 11; // pixels
  const faults = [];
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) {
    faults.push(`the page is ${root.scrollWidth} wide on a screen of ${root.clientWidth}`);
  }

  const seen = (element) => element.getClientRects().length > 0 && getComputedStyle(element).visibility === "visible";
  const quote = (element) => JSON.stringify(element.textContent.trim().slice(0, 60));
  const tooSmall = (element, size) => {
    if (size < smallest - 0.05) faults.push(`${quote(element)} is ${size.toFixed(1)} px small`);
  };

  const words = document.createTreeWalker(document.body ?? root, NodeFilter.SHOW_TEXT);
  while (words.nextNode()) {
    const element = words.currentNode.parentElement;
    if (words.currentNode.data.trim() === "" || element.closest("svg, script, style") || !seen(element)) continue;
    tooSmall(element, parseFloat(getComputedStyle(element).fontSize));
  }

  // The places along a line, a pixel or so apart, as the screen has them.
  const along = (path) => {
    const toScreen = path.getScreenCTM();
    const length = path.getTotalLength();
    const count = Math.max(2, Math.ceil(length));
    return Array.from({ length: count + 1 }, (_, i) => path.getPointAtLength((length * i) / count).matrixTransform(toScreen));
  };

  // Lines that go through text or, where they lead to names, through each other. A text with a halo
  // covers the lines below it, but not where one leads: there it looks like struck out.
  const crossings = (picture, texts) => {
    const found = [];
    const paths = [...picture.querySelectorAll("path")].filter((path) => seen(path) && getComputedStyle(path).stroke !== "none");
    const leads = [];
    for (const path of paths) {
      const places = along(path);
      const lead = path.classList.contains("lead");
      if (lead) leads.push(places);
      for (const { element, box } of texts) {
        const covered = element.classList.contains("halo") && path.compareDocumentPosition(element) & Node.DOCUMENT_POSITION_FOLLOWING;
        if (path.classList.contains("grid") || (covered && !lead)) continue;
        const [high, low] = [box.top + box.height * 0.3, box.bottom - box.height * 0.3];
        if (places.some(({ x, y }) => x > box.left + 1 && x < box.right - 1 && y > high && y < low)) {
          found.push(`a line ${path.getAttribute("class")} goes through ${quote(element)}`);
        }
      }
    }
    for (const [i, a] of leads.entries()) {
      for (const b of leads.slice(i + 1)) if (cross(a[0], a.at(-1), b[0], b.at(-1))) found.push("two lines that lead to names cross");
    }
    return found;
  };

  // Whether two straight lines have a point in common that is the end of neither.
  const cross = (a, b, c, d) => {
    const side = (p, q, r) => Math.sign((q.x - p.x) * (r.y - p.y) - (q.y - p.y) * (r.x - p.x));
    return side(a, b, c) * side(a, b, d) < 0 && side(c, d, a) * side(c, d, b) < 0;
  };

  for (const picture of document.querySelectorAll("svg")) {
    const frame = picture.getBoundingClientRect();
    const texts = [...picture.querySelectorAll("text")].filter(seen).map((element) => ({ element, box: element.getBoundingClientRect() }));
    for (const [i, { element, box }] of texts.entries()) {
      tooSmall(element, parseFloat(getComputedStyle(element).fontSize) * element.getScreenCTM().d);
      if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1) {
        faults.push(`${quote(element)} stands outside of its picture`);
      }
      for (const other of texts.slice(i + 1)) {
        // A box has room above and below its letters.
        const across = Math.min(box.right, other.box.right) - Math.max(box.left, other.box.left);
        const down = Math.min(box.bottom, other.box.bottom) - Math.max(box.top, other.box.top);
        if (across > 1 && down > box.height * 0.35) faults.push(`${quote(element)} and ${quote(other.element)} stand on each other`);
      }
    }
    faults.push(...crossings(picture, texts));
  }
  return faults;
})();
