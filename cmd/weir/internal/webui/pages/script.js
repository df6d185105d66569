// What makes the page lively. Without it everything works, a request later.
"use strict";
(() => {
  const beat = 5000;

  // Times are shown in the reader's zone; the title says them in UTC.
  const zoned = (root) => {
    for (const e of root.querySelectorAll("time[datetime]:not([title])")) {
      const at = new Date(e.dateTime);
      if (isNaN(at) || at.getTimezoneOffset() === 0) continue;
      const two = (n) => String(n).padStart(2, "0");
      const zone = new Intl.DateTimeFormat("en", { timeZoneName: "short" }).formatToParts(at).find((p) => p.type === "timeZoneName").value;
      const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
      const time = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())} ${zone}`;
      e.title = e.textContent;
      if (e.children.length === 2) [e.children[0].textContent, e.children[1].textContent] = [day, time];
      else e.textContent = `${day} ${time}`;
    }
  };
  zoned(document);

  // Counts of the page follow those of the daemon while somebody looks. A page that answers a form can't be had again.
  const live = () => document.querySelectorAll("[data-live]");
  const refresh = async () => {
    if (document.hidden) return;
    const answer = await fetch(location.href, { credentials: "same-origin", redirect: "error", headers: { "Weir-Refresh": "1" } });
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const now = new Map([...page.querySelectorAll("[data-live]")].map((e) => [e.dataset.live, e]));
    for (const e of live()) {
      const next = now.get(e.dataset.live);
      if (!next || next.isEqualNode(e)) continue;
      // What the reader has selected stays, and so does what has the focus, by its id.
      const selected = getSelection();
      if (!selected.isCollapsed && e.contains(selected.anchorNode)) continue;
      const focused = e.contains(document.activeElement) ? document.activeElement.id : "";
      e.replaceWith(next);
      if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
    }
    zoned(document);
  };
  if (live().length > 0 && !document.querySelector("[data-sent]")) setInterval(() => refresh().catch(() => {}), beat);
})();
