// What the editor of a rule has beside its field: numbers of lines, errors at their lines, and words that
// fit. Without it the form works, and says a request later what is wrong, and where.
"use strict";
(() => {
  const pause = 300, patience = 10000; // from the last key to a look, and for its answer, in milliseconds
  const form = document.querySelector("[data-editor]");
  const area = form.querySelector("textarea");
  const at = (name) => form.querySelector(name);
  const code = at(".code"), gutter = at(".gutter"), marks = at(".marks"), list = at(".words"), said = at("#said"), found = at("#found"), preview = at("#preview");
  const make = (kind, of, text) => Object.assign(document.createElement(kind), { className: of, textContent: text });
  at(".lively").hidden = false;
  at(".excerpt")?.remove();

  // Lines. Only those that are seen are drawn, so that a key takes as long in a long text.
  let whole = "", lines = [], told = []; // told: what is said of the text, {line, text, severity}
  const style = getComputedStyle(area), height = parseFloat(style.lineHeight), edge = parseFloat(style.paddingTop);
  const draw = () => {
    const first = Math.max(0, Math.floor((area.scrollTop - edge) / height));
    const last = Math.min(lines.length, first + Math.ceil(area.clientHeight / height) + 1);
    const top = (line) => `${edge + line * height - area.scrollTop}px`;
    const numbers = make("div", "", ""), notes = [];
    numbers.style.top = top(first);
    for (let i = first; i < last; i++) {
      const here = told.filter((t) => t.line === i + 1);
      numbers.append(make("div", here[0]?.severity ?? "", i + 1));
      if (here.length === 0) continue;
      const note = make("div", here[0].severity, ""), before = make("span", "before", lines[i]);
      note.style.top = top(i);
      before.style.marginLeft = `${-area.scrollLeft}px`;
      note.append(before, make("span", "note", here.map((t) => t.text).join("; ")));
      notes.push(note);
    }
    gutter.replaceChildren(numbers);
    marks.replaceChildren(...notes);
  };
  const read = () => {
    whole = area.value; // which takes a browser long in a long text, as does the place of the caret
    const now = whole.split("\n"), more = now.length - lines.length;
    if (more !== 0 && lines.length > 0) {
      const caret = lineOf(area.selectionStart) - Math.max(more, 0); // where lines came or went
      for (const t of told) if (t.line > caret) t.line = Math.max(1, t.line + more);
    }
    lines = now;
    code.style.setProperty("--digits", String(lines.length).length);
    draw();
  };
  const lineOf = (caret) => whole.slice(0, caret).split("\n").length;
  const lineBefore = (caret) => whole.slice(whole.lastIndexOf("\n", caret - 1) + 1, caret);
  area.addEventListener("scroll", draw);
  new ResizeObserver(draw).observe(area);

  // What the daemon says of the text: never more than one question is under way.
  const tell = () => {
    told = [...found.querySelectorAll("[data-line]")].map((a) => ({ line: Math.min(Number(a.dataset.line), lines.length), severity: a.dataset.severity, text: a.querySelector("span").textContent }));
    area.setAttribute("aria-invalid", told.some((t) => t.severity === "error"));
    draw();
  };
  const alone = (text) => { // what there is to say when the daemon does not
    said.textContent = text;
    found.replaceChildren(make("p", "soft", text));
    tell();
  };
  let wait = 0, busy = false, again = false;
  const later = (time) => {
    clearTimeout(wait);
    wait = setTimeout(look, time);
  };
  const look = async () => {
    if (busy) return void (again = true);
    const most = Number(area.dataset.most), bytes = new TextEncoder().encode(area.value).length;
    if (bytes > most) return alone(`The text has ${bytes} bytes, and a rule may have ${most}. Take something out of it.`);
    busy = true;
    preview.setAttribute("aria-busy", "true");
    try {
      const body = new URLSearchParams({ csrf: form.csrf.value, domain: form.domain.value, text: area.value });
      const answer = await fetch("/ui/look", { method: "POST", body, credentials: "same-origin", redirect: "error", signal: AbortSignal.timeout(patience) });
      if (answer.ok) {
        const page = new DOMParser().parseFromString(await answer.text(), "text/html"); // escaped where it was made
        const part = (name) => page.querySelector(`[data-part=${name}]`);
        if (!again) {
          found.replaceChildren(...part("found").childNodes);
          preview.replaceChildren(...part("preview").childNodes);
          said.textContent = part("said").textContent;
          tell();
        }
      } else if (answer.status === 429) later(1000 * Number(answer.headers.get("Retry-After")));
      else alone("The text is not checked now: the daemon can't do it. Send it to see more.");
    } catch {
      alone("The text is not checked now: the daemon does not answer, or your session has ended. What you write stays in this tab.");
    }
    busy = false;
    preview.setAttribute("aria-busy", "false");
    if (again) later(0);
    again = false;
  };
  form.addEventListener("click", (e) => {
    const place = e.target.closest("[data-line]");
    if (!place) return;
    e.preventDefault();
    const line = Math.min(Number(place.dataset.line), lines.length) - 1;
    const column = [...lines[line]].slice(0, Number(place.dataset.column) - 1).join("").length; // of characters
    const caret = lines.slice(0, line).reduce((sum, l) => sum + l.length + 1, column);
    area.focus();
    area.setSelectionRange(caret, caret);
    area.scrollTop = (line - 3) * height;
  });

  // What was written and not sent stays in this tab.
  const name = `weir ${form.domain.value} ${form.rule.value}`, kept = at("#kept");
  const keep = (act) => {
    try {
      return act(sessionStorage);
    } catch {} // the browser keeps nothing
  };
  for (const n of [name, `weir ${form.domain.value} `]) { // the second: it was new, and is sent
    if (keep((s) => s.getItem(n))?.trim() === area.value.trim()) keep((s) => s.removeItem(n));
  }
  const before = keep((s) => s.getItem(name));
  kept.hidden = !before;
  kept.querySelector("button").addEventListener("click", () => {
    kept.hidden = true;
    area.focus();
    area.select();
    write(before);
  });
  form.addEventListener("submit", () => keep((s) => s.setItem(name, area.value)));

  // write puts text in the place of what is selected, so that the browser can undo it.
  const write = (text) => {
    if (document.execCommand("insertText", false, text)) return;
    area.setRangeText(text, area.selectionStart, area.selectionEnd, "end");
    area.dispatchEvent(new Event("input"));
  };

  // The schema of rule files says which words fit.
  let schema = null;
  area.addEventListener("focus", async () => {
    const answer = await fetch("/ui/schema.json", { credentials: "same-origin" }).catch(() => null);
    if (answer?.ok) schema = await answer.json();
  }, { once: true });
  const all = (node, had = new Set()) => { // a schema, and all that it may be
    if (!node || had.has(node)) return [];
    had.add(node);
    return [node, ...[schema.definitions[node.$ref?.slice("#/definitions/".length)], node.else, ...(node.anyOf ?? [])].flatMap((n) => all(n, had))];
  };
  const below = (nodes, key) => nodes.flatMap((n) => all(key === null ? n.items : n.properties?.[key])); // null: an item of a list
  const explained = (nodes) => nodes.find((n) => n.description)?.description ?? "";
  const part = (name) => schema.definitions[name].anyOf.map((n) => {
    const text = n.const ?? n.examples[0];
    return { word: text.split(" ")[0], more: text.includes(" "), example: n.const ? "" : n.examples.at(-1), why: n.description };
  });

  // limit is what fits at the end of a limit's text.
  const limit = (text) => {
    const words = text.split(/ +/), last = words.pop();
    if (words.length === 0) {
      const unit = /^\d+\/\d*([a-z]*)$/.exec(last);
      if (unit) return { typed: unit[1], words: part("limit_unit") };
      return { typed: last, words: last === "" ? schema.definitions.limit.examples.map((word) => ({ word, why: "" })) : [] };
    }
    const had = (word) => words.includes(word), algorithms = part("limit_algorithm");
    let fit = [...algorithms.some((a) => had(a.word)) ? [] : algorithms, ...part("limit_word")];
    if (!words[0].includes("/")) fit = part("limit_permits").slice(...had("concurrent") ? [1] : [0, 1]);
    if (fit.concat(algorithms).some((w) => w.more && w.word === words.at(-1))) return null; // it has its number yet to come
    return { typed: last, words: fit.filter((w) => !had(w.word)) };
  };
  // value is what fits at the end of a value.
  const value = (nodes, text) => {
    text = text.replace(/^["']/, "");
    if (nodes.includes(schema.definitions.limit)) return limit(text);
    const flag = nodes.some((n) => n.type === "boolean");
    const words = nodes.flatMap((n) => flag ? [] : [...n.enum ?? [], ...n.const ? [n.const] : [], ...n.examples ?? []].map((word) => ({ word, why: n.description ?? explained(nodes) })));
    if (flag) words.push({ word: "true", why: explained(nodes) }, { word: "false", why: "" });
    return { typed: text, words: words.filter((w) => w.word && typeof w.word === "string") };
  };
  // keys is what fits where a key begins; indent is how far in those below it are, null in a line's braces.
  const keys = (nodes, text, had, indent) => {
    const names = new Set(nodes.flatMap((n) => Object.keys(n.properties ?? {})));
    const ends = (nodes) => {
      if (indent === null) return ": ";
      const items = below(nodes, null), deep = "\n" + " ".repeat(indent + 2);
      if (items.includes(schema.definitions.limit)) return ": [";
      return items.length > 0 ? `:${deep}- ` : nodes.some((n) => n.properties) ? `:${deep}` : ": ";
    };
    return { typed: text, words: [...names].filter((n) => !had.has(n)).map((word) => ({ word, end: ends(below(nodes, word)), why: explained(below(nodes, word)) })) };
  };
  // flow is what fits at the end of a value in brackets and braces.
  const flow = (nodes, text) => {
    const open = [];
    let now = { list: true, at: nodes, had: new Set() }, typed = "";
    for (let i = 0; i < text.length; i++) {
      const c = text[i];
      if (c === "[" || c === "{") {
        open.push(now);
        now = c === "[" ? { list: true, at: below(now.at, null) } : { list: false, map: now.at, at: null, had: new Set() };
        typed = "";
      } else if (c === "]" || c === "}") {
        now = open.pop() ?? now;
        typed = "";
      } else if (c === ",") {
        if (!now.list) now.at = null;
        typed = "";
      } else if (c === ":" && !now.list && /^ /.test(text.slice(i + 1))) {
        now.had.add(typed.trim());
        now.at = below(now.map, typed.trim());
        typed = "";
      } else typed += c;
    }
    if (open.length === 0) return null;
    return now.at ? value(now.at, typed.trimStart()) : keys(now.map, typed.trimStart(), now.had, null);
  };
  // shape is how far in a line's dashes and key are.
  const shape = (line) => {
    const lead = /^ *(?:- +)*(?:-$)?/.exec(line)[0], key = /^(["']?)([A-Za-z_][\w-]*)\1 *:(?: +|$)/.exec(line.slice(lead.length));
    const dashes = [...lead].flatMap((c, i) => c === "-" ? [i] : []);
    return { dashes, first: dashes[0] ?? lead.length, at: lead.length, key: key?.[2], rest: line.slice(lead.length + (key?.[0].length ?? 0)) };
  };
  const blank = (line) => /^\s*(#|$)/.test(line);
  // fitting is what fits at the caret: the way there leads over keys and, as null, items of lists.
  const fitting = (caret) => {
    const n = lineOf(caret) - 1, text = lineBefore(caret);
    if (/(^|\s)#/.test(text)) return null;
    const here = shape(text), way = [...here.key === undefined ? [] : [here.key], ...here.dashes.map(() => null)];
    let edge = here.first, item = here.dashes.length > 0;
    for (let i = n - 1; i >= 0 && (edge > 0 || item); i--) {
      const s = shape(lines[i]);
      const holds = s.key !== undefined && (s.at < edge || item && s.at === edge);
      const over = s.dashes.filter((d) => d < edge);
      if (blank(lines[i]) || !holds && over.length === 0) continue;
      way.push(...holds ? [s.key] : [], ...over.map(() => null));
      edge = s.first;
      item = s.dashes.length > 0;
    }
    const nodes = way.reverse().reduce(below, all(schema.definitions.descriptors));
    if (/^[[{]/.test(here.rest)) return flow(nodes, here.rest);
    if (here.key !== undefined || /[^\w]/.test(here.rest)) return value(nodes, here.rest);
    const fit = keys(nodes, here.rest, siblings(n, here.at), here.at);
    return { typed: fit.typed, words: [...value(nodes, here.rest).words, ...fit.words] };
  };
  // siblings is the keys that a line's mapping has already.
  const siblings = (n, column) => {
    const had = new Set();
    for (const step of [-1, 1]) {
      for (let i = n + step; i >= 0 && i < lines.length; i += step) {
        if (blank(lines[i])) continue;
        const s = shape(lines[i]);
        if (step > 0 && s.first < column) break;
        if (s.at === column && s.key) had.add(s.key);
        if (s.first < column) break;
      }
    }
    return had;
  };

  // The list of words that fit.
  let words = [], typed = "", chosen = -1;
  const close = () => {
    list.hidden = true;
    words = [];
    area.removeAttribute("aria-activedescendant");
  };
  const choose = (n) => {
    list.children[chosen]?.setAttribute("aria-selected", "false");
    list.children[chosen = n]?.setAttribute("aria-selected", "true");
    list.children[n]?.scrollIntoView({ block: "nearest" });
    if (n < 0) area.removeAttribute("aria-activedescendant");
    else area.setAttribute("aria-activedescendant", `word-${n}`);
  };
  const suggest = (asked) => {
    const closed = list.hidden;
    close();
    const caret = area.selectionEnd, fit = schema && fitting(caret);
    if (!fit || !asked && fit.typed === "" && fit.words.some((w) => w.end)) return; // keys wait for a letter
    typed = fit.typed;
    words = fit.words.filter((w) => w.word.toLowerCase().startsWith(typed.toLowerCase()));
    if (words.length === 0 || !asked && words.length === 1 && words[0].word === typed) return close();
    list.replaceChildren(...words.map((w, i) => {
      const option = make("li", "", "");
      option.append(make("b", "", w.example || w.word), make("span", "soft", w.why));
      option.id = `word-${i}`;
      option.setAttribute("role", "option");
      option.setAttribute("aria-selected", "false");
      return option;
    }));
    list.hidden = false;
    const n = lineOf(caret) - 1, ruler = make("span", "before", lineBefore(caret).slice(0, -typed.length || undefined)), row = make("div", "", "");
    row.append(ruler);
    marks.append(row);
    const left = gutter.offsetWidth + ruler.getBoundingClientRect().width - area.scrollLeft;
    row.remove();
    list.style.left = `${Math.max(0, Math.min(left, code.clientWidth - list.offsetWidth))}px`;
    list.style.top = `${edge + (n + 1) * height - area.scrollTop}px`;
    if (closed) said.textContent = words.length === 1 ? "1 word fits." : `${words.length} words fit.`;
    choose(asked || typed !== "" ? 0 : -1);
  };
  const take = (n) => {
    const w = words[n], end = w.end ?? (w.more ? " " : "");
    const caret = area.selectionEnd;
    area.setSelectionRange(caret - typed.length, caret);
    close();
    write(w.word + end + (end.endsWith("[") ? "]" : ""));
    if (!end.endsWith("[")) return;
    const inside = area.selectionEnd - 1;
    area.setSelectionRange(inside, inside);
    suggest(false);
  };
  area.addEventListener("keydown", (e) => {
    if (e.isComposing) return;
    const plain = !e.ctrlKey && !e.metaKey && !e.altKey && !e.shiftKey;
    if (e.key === " " && e.ctrlKey) {
      e.preventDefault();
      suggest(true);
    } else if (!list.hidden && (e.key === "ArrowDown" || e.key === "ArrowUp")) {
      e.preventDefault();
      choose(e.key === "ArrowDown" ? (chosen + 1) % words.length : (chosen <= 0 ? words.length : chosen) - 1);
    } else if (!list.hidden && chosen >= 0 && plain && e.key === "Tab") {
      e.preventDefault();
      take(chosen);
    } else if (!list.hidden && e.key === "Escape") {
      e.preventDefault();
      close();
    } else if (["ArrowLeft", "ArrowRight", "Home", "End", "PageUp", "PageDown"].includes(e.key)) close();
  });
  area.addEventListener("beforeinput", (e) => { // Enter, also of the keyboards of phones
    if (e.inputType !== "insertLineBreak" || e.isComposing) return;
    e.preventDefault();
    if (!list.hidden && chosen >= 0) return take(chosen);
    const s = shape(lineBefore(area.selectionStart));
    write("\n" + " ".repeat(s.key === undefined ? s.first : s.rest === "" ? s.at + 2 : s.at));
  });
  list.addEventListener("mousedown", (e) => {
    e.preventDefault(); // the caret stays
    const option = e.target.closest("li");
    if (option) take([...list.children].indexOf(option));
  });
  area.addEventListener("mousedown", close);
  area.addEventListener("blur", close);
  area.addEventListener("input", () => {
    read();
    suggest(false);
    later(pause);
    clearTimeout(keeping);
    keeping = setTimeout(() => keep((s) => s.setItem(name, area.value)), pause);
  });
  let keeping = 0;
  area.setAttribute("aria-autocomplete", "list");
  area.setAttribute("aria-controls", list.id);
  area.setAttribute("aria-haspopup", "listbox");
  read();
  tell();
})();
