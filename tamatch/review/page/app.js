"use strict";
// The page of `tamatch review`. All text comes in by textContent, never as HTML.

const SKIPPED = -1;
const OVERSCAN = 2; // rows drawn above and below what is seen
const AHEAD = 8; // images fetched before they are reached
const LATE = 40; // milliseconds a tile must stay before its image is fetched

const $ = (id) => document.getElementById(id);
const percent = (share) => `${Math.floor(100 * share)} %`;

let data; // what the server says of the pool
const labels = new Map(); // image → class, or SKIPPED
let view = []; // the images shown, a snapshot: what gets its label stays in its place
let cursor = 0; // position in the view
let undoable = 0;
let waiting = 0; // changes that the server has not confirmed
let broken = false; // something could not be saved
let line = Promise.resolve(); // one request after the other, in the order of the keys
const tiles = new Map(); // image → element, of those drawn
let columns = 1;
let cell = { width: 1, height: 1 };

function element(kind, className, text) {
  const made = document.createElement(kind);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

async function start() {
  history.replaceState(null, "", "/"); // the key in the address has done its work
  const answer = await fetch("/state");
  if (!answer.ok) throw new Error(await answer.text());
  data = await answer.json();
  for (const [image, label] of Object.entries(data.labels)) labels.set(Number(image), label);
  undoable = data.undoable;
  makeClasses();
  new ResizeObserver(measure).observe($("grid"));
  measure();
  filter();
  $("grid").focus({ preventScroll: true });
}

// ---- what is shown ------------------------------------------------------------------------

function filter() {
  const state = $("state").value;
  const wanted = $("class").value === "" ? null : Number($("class").value);
  const [low, high] = $("confidence").value.split(" ").map(Number);
  const before = view[cursor];
  view = [];
  for (let i = 0; i < data.files.length; i++) {
    const label = labels.get(i);
    const is = label === undefined ? "todo" : label === SKIPPED ? "skipped" : "labelled";
    if (state !== "all" && state !== is) continue;
    if (wanted !== null && data.guesses[i][0] !== wanted) continue;
    if (data.shares[i][0] < low || data.shares[i][0] >= high) continue;
    view.push(i);
  }
  cursor = Math.max(0, view.indexOf(before));
  for (const tile of tiles.values()) tile.remove();
  tiles.clear();
  $("grid").scrollTop = 0;
  const all = view.length === data.files.length;
  $("shown").textContent = all ? "" : `${view.length.toLocaleString("en")} shown`;
  show();
}

function measure() {
  const style = getComputedStyle($("grid"));
  const room = $("grid").clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  const least = parseFloat(style.getPropertyValue("--tile"));
  columns = Math.max(2, Math.floor(room / least));
  cell = { width: room / columns, height: room / columns + parseFloat(style.getPropertyValue("--caption")) };
  if (data) show();
}

function show() {
  const grid = $("grid");
  grid.hidden = view.length === 0;
  $("empty").hidden = view.length > 0;
  $("sheet").style.height = `${Math.ceil(view.length / columns) * cell.height}px`;
  keepInSight();
  draw();
  showPanel();
  showCounts();
}

function keepInSight() {
  const grid = $("grid");
  const top = Math.floor(cursor / columns) * cell.height;
  if (top < grid.scrollTop) grid.scrollTop = top;
  const ahead = Math.min(cell.height, Math.max(16, grid.clientHeight - 2 * cell.height)); // a row
  const bottom = top + cell.height + ahead - grid.clientHeight;
  if (bottom > grid.scrollTop) grid.scrollTop = bottom;
}

function draw() {
  const grid = $("grid");
  const first = Math.max(0, Math.floor(grid.scrollTop / cell.height) - OVERSCAN) * columns;
  const rows = Math.ceil(grid.clientHeight / cell.height) + 2 * OVERSCAN + 1;
  const last = Math.min(view.length, first + rows * columns);
  const seen = new Set(view.slice(first, last));
  for (const [image, tile] of tiles) {
    if (seen.has(image)) continue;
    tile.remove();
    tiles.delete(image);
  }
  for (let at = first; at < last; at++) drawTile(view[at], at);
  const chosen = view[cursor];
  if (tiles.has(chosen)) grid.setAttribute("aria-activedescendant", `image-${chosen}`);
  else grid.removeAttribute("aria-activedescendant");
}

function drawTile(image, at) {
  let tile = tiles.get(image);
  if (!tile) {
    tile = makeTile(image);
    tiles.set(image, tile);
    $("sheet").append(tile);
  }
  const x = (at % columns) * cell.width;
  const y = Math.floor(at / columns) * cell.height;
  tile.style.transform = `translate(${x}px, ${y}px)`;
  tile.style.width = `${cell.width}px`;
  tile.style.height = `${cell.height}px`;
  const label = labels.get(image);
  const [guess] = data.guesses[image];
  const sure = percent(data.shares[image][0]);
  const state = label === undefined ? "todo" : label === SKIPPED ? "skipped" : "labelled";
  tile.className = `tile-image ${state}${at === cursor ? " chosen" : ""}`;
  const words = { todo: data.classes[guess], skipped: "skipped", labelled: data.classes[label] };
  tile.querySelector(".word").textContent = words[state];
  tile.querySelector(".sure").textContent = state === "todo" ? sure : "";
  tile.setAttribute("aria-selected", String(at === cursor));
  tile.setAttribute("aria-posinset", String(at + 1));
  tile.setAttribute("aria-setsize", String(view.length));
  const said = { todo: "no label", skipped: "skipped", labelled: `labelled ${data.classes[label]}` };
  const about = `${data.files[image]}: guess ${data.classes[guess]}, ${sure}; ${said[state]}`;
  tile.setAttribute("aria-label", about);
  tile.title = about;
}

function makeTile(image) {
  const tile = element("div", "tile-image");
  tile.id = `image-${image}`;
  tile.setAttribute("role", "option");
  const frame = element("div", "frame");
  const picture = element("img");
  picture.alt = "";
  picture.decoding = "async";
  setTimeout(() => tile.isConnected && (picture.src = `/image/${image}`), LATE);
  frame.append(picture);
  const caption = element("div", "caption");
  caption.append(element("span", "word"), element("span", "sure"));
  tile.append(frame, caption);
  tile.addEventListener("click", () => choose(view.indexOf(image)));
  return tile;
}

function showPanel() {
  const image = view[cursor];
  const none = image === undefined;
  $("panel").classList.toggle("none", none);
  for (const id of ["confirm", "skip"]) $(id).disabled = none || broken;
  $("undo").disabled = undoable === 0 || broken;
  for (const button of $("classes").children) button.disabled = none || broken;
  if (none) {
    $("photo").removeAttribute("src");
    $("photo").alt = "";
    for (const id of ["file", "decided"]) $(id).textContent = "";
    $("guesses").replaceChildren();
    return;
  }
  const label = labels.get(image);
  const [guess] = data.guesses[image];
  if ($("photo").getAttribute("src") !== `/image/${image}`) $("photo").src = `/image/${image}`;
  $("photo").alt = `The image ${data.files[image]}`;
  $("file").textContent = data.files[image];
  $("guesses").replaceChildren(...data.guesses[image].map((c, k) => guessRow(c, data.shares[image][k])));
  $("confirm-text").textContent = `It is ${data.classes[guess]}`;
  const said = label === SKIPPED ? "Skipped" : `Labelled ${data.classes[label]}`;
  $("decided").textContent = label === undefined ? "" : said;
  [...$("classes").children].forEach((button, c) => {
    button.classList.toggle("guess", c === guess);
    button.setAttribute("aria-pressed", String(c === label));
  });
  for (const next of view.slice(cursor + 1, cursor + 1 + AHEAD)) new Image().src = `/image/${next}`;
}

function guessRow(c, share) {
  const row = element("li");
  const bar = element("span", "bar");
  const fill = element("span", "fill");
  fill.style.width = `${100 * share}%`;
  bar.append(fill);
  row.append(element("span", "name", data.classes[c]), element("span", "share", percent(share)), bar);
  return row;
}

function showCounts() {
  let done = 0;
  let passed = 0;
  const perClass = data.classes.map(() => 0);
  for (const label of labels.values()) {
    if (label === SKIPPED) passed++;
    else {
      done++;
      perClass[label]++;
    }
  }
  const left = data.files.length - done - passed;
  const number = (n) => n.toLocaleString("en");
  const parts = [["labelled", done], ...(passed ? [["skipped", passed]] : []), ["to do", left]];
  $("counts").replaceChildren(
    ...parts.map(([what, n]) => {
      const part = element("span");
      part.append(element("b", "", number(n)), ` ${what}`);
      return part;
    }),
  );
  const saved = $("saved");
  saved.className = `saved ${broken ? "bad" : waiting ? "busy" : "good"}`;
  saved.textContent = broken ? "not saved" : waiting ? "saving …" : "saved";
  saved.dataset.labels = String(done + passed); // what the server has confirmed, once it is "saved"
  perClass.forEach((n, c) => {
    const given = data.given[c];
    const count = $("classes").children[c].querySelector(".count");
    count.textContent = n ? `${given} + ${n}` : String(given);
  });
}

function makeClasses() {
  data.classes.forEach((name, c) => {
    const button = element("button", "class");
    button.type = "button";
    const key = c < 10 ? element("kbd", "", String((c + 1) % 10)) : element("span", "nokey");
    const count = element("span", "count");
    count.title = "labelled images of this class: before, and added here";
    button.append(key, element("span", "name", name), count);
    button.addEventListener("click", (event) => {
      decide(c);
      if (event.detail) $("grid").focus({ preventScroll: true });
    });
    $("classes").append(button);
    const option = element("option", "", name);
    option.value = String(c);
    $("class").append(option);
  });
  $("find-row").hidden = data.classes.length <= 10;
}

// ---- what the person does -----------------------------------------------------------------

function choose(at) {
  if (!view.length) return;
  cursor = Math.min(view.length - 1, Math.max(0, at));
  show();
}

function decide(label) {
  const image = view[cursor];
  if (image === undefined || broken) return;
  const before = labels.get(image);
  labels.set(image, label);
  undoable++;
  const word = label === SKIPPED ? "skipped" : `labelled ${data.classes[label]}`;
  $("said").textContent = `${data.files[image]} ${word}.`;
  send("/label", { image, label }, () => restore(image, before));
  advance();
}

function advance() {
  const open = view.map((image, at) => (labels.has(image) ? -1 : at)).filter((at) => at >= 0);
  const next = open.find((at) => at > cursor) ?? open[0];
  if (next === undefined && $("state").value === "todo") return filter(); // all of it is done
  cursor = next ?? Math.min(cursor + 1, view.length - 1);
  show();
}

function undo() {
  if (!undoable || broken) return;
  send("/undo", {}, () => {});
}

function undone(answer) {
  undoable = answer.undoable;
  if (answer.image === null) return;
  if (answer.image < 0) $("said").textContent = "A label from an earlier session was undone.";
  else {
    restore(answer.image, answer.label ?? undefined);
    $("said").textContent = `${data.files[answer.image]}: undone.`;
    const at = view.indexOf(answer.image);
    if (at >= 0) cursor = at;
    else {
      $("state").value = "todo";
      filter();
      cursor = Math.max(0, view.indexOf(answer.image));
    }
  }
  show();
}

function restore(image, label) {
  if (label === undefined) labels.delete(image);
  else labels.set(image, label);
}

function send(path, body, revert) {
  waiting++;
  line = line.then(async () => {
    try {
      if (broken) throw new Error("an earlier change could not be saved");
      const answer = await fetch(path, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(body),
      });
      if (!answer.ok) throw new Error((await answer.text()).trim());
      const content = await answer.json();
      waiting--;
      if (path === "/undo") undone(content);
      else showCounts();
    } catch (error) {
      waiting--;
      revert();
      fail(error);
      show();
    }
  });
}

function fail(error) {
  if (broken) return;
  broken = true;
  const lost = error instanceof TypeError; // fetch had no answer
  $("trouble").textContent = lost
    ? "The connection to tamatch review is lost. Labels that were not saved have been undone here. Start it again and open the new address; it continues from the saved labels."
    : `Not saved: ${error.message}`;
  $("trouble").hidden = false;
}

// ---- keys -----------------------------------------------------------------------------------

const MOVES = {
  ArrowRight: () => 1,
  ArrowLeft: () => -1,
  ArrowDown: () => columns,
  ArrowUp: () => -columns,
  PageDown: () => columns * Math.max(1, Math.floor($("grid").clientHeight / cell.height)),
  PageUp: () => -columns * Math.max(1, Math.floor($("grid").clientHeight / cell.height)),
  Home: () => -view.length,
  End: () => view.length,
};

function onKey(event) {
  if (!data || event.ctrlKey || event.metaKey || event.altKey || $("help").open) return;
  const on = event.target;
  if (event.key === "Escape") return void $("grid").focus({ preventScroll: true });
  if (on.matches("input, select, textarea")) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const pressed = on.matches("button, summary, a") && (key === "Enter" || key === " ");
  if (pressed) return; // the button itself answers
  const digit = /^[0-9]$/.test(key) ? (Number(key) + 9) % 10 : -1;
  if (key in MOVES) choose(cursor + MOVES[key]());
  else if (event.repeat) return; // a key held down labels one image
  else if (digit >= 0 && digit < data.classes.length) decide(digit);
  else if (key === "Enter") confirmGuess();
  else if (key === "s") decide(SKIPPED);
  else if (key === "u") undo();
  else if (key === "?") $("help").showModal();
  else if (key === "/" && !$("find-row").hidden) $("find").focus();
  else return;
  event.preventDefault();
}

function confirmGuess() {
  if (view[cursor] !== undefined) decide(data.guesses[view[cursor]][0]);
}

function matching() {
  const wanted = $("find").value.trim().toLowerCase();
  const names = data.classes.map((name) => name.toLowerCase());
  const starts = (c) => (names[c].startsWith(wanted) ? 0 : 1);
  const found = names.map((_, c) => c).filter((c) => names[c].includes(wanted));
  return found.sort((a, b) => starts(a) - starts(b) || a - b);
}

function find(event) {
  const found = new Set(matching());
  [...$("classes").children].forEach((button, c) => (button.hidden = !found.has(c)));
  $("said").textContent = `${found.size} classes`;
  if (event.key !== "Enter") return;
  event.preventDefault();
  const [first] = matching();
  if (first !== undefined && $("find").value.trim()) decide(first);
  leaveFind();
}

function leaveFind() {
  $("find").value = "";
  for (const button of $("classes").children) button.hidden = false;
  $("grid").focus({ preventScroll: true });
}

function click(id, act) {
  $(id).addEventListener("click", (event) => {
    act();
    if (event.detail && !$("help").open) $("grid").focus({ preventScroll: true });
  });
}

document.addEventListener("keydown", onKey);
$("grid").addEventListener("scroll", () => requestAnimationFrame(draw), { passive: true });
for (const id of ["state", "class", "confidence"]) $(id).addEventListener("change", filter);
document.querySelector(".filters").addEventListener("submit", (event) => event.preventDefault());
$("find").addEventListener("input", find);
$("find").addEventListener("keydown", (event) => {
  if (event.key === "Enter") find(event);
  if (event.key === "Escape") leaveFind();
});
click("confirm", confirmGuess);
click("skip", () => decide(SKIPPED));
click("undo", undo);
click("help-button", () => $("help").showModal());
click("copy", async () => {
  await navigator.clipboard.writeText($("command").textContent);
  $("copied").textContent = "copied";
});
window.addEventListener("beforeunload", (event) => waiting && event.preventDefault());
start().catch(fail);
