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
  }
  return faults;
})();
