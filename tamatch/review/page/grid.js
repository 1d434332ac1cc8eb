"use strict";
// The grid of images, the line of requests and the keys that move: shared by both pages, each of
// which defines describe(image), showPanel() and showCounts(). All text comes in by textContent,
// never as HTML.

const OVERSCAN = 2; // rows drawn above and below what is seen
const AHEAD = 8; // images fetched before they are reached
const LATE = 40; // milliseconds a tile must stay before its image is fetched

const REFUSED = 422; // the status of a change that the person has to make otherwise

const $ = (id) => document.getElementById(id);
const percent = (share) => `${Math.floor(100 * share)} %`;

let data; // what the server says of the images
const labels = new Map(); // image → its label
let view = []; // the images shown, a snapshot: what gets its label stays in its place
let cursor = 0; // position in the view
let undoable = 0;
let waiting = 0; // changes that the server has not confirmed
let broken = false; // something could not be saved, or no more labels are taken
let refusal = ""; // why the last change was refused, if it was: the others are saved
let ended = false; // no more are taken, and all are saved
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

// ---- what is shown ------------------------------------------------------------------------

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

function redraw() {
  for (const tile of tiles.values()) tile.remove();
  tiles.clear();
  $("grid").scrollTop = 0;
  show();
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
  const { state, word, sure, about } = describe(image);
  tile.className = `tile-image ${state}${at === cursor ? " chosen" : ""}`;
  tile.querySelector(".word").textContent = word;
  tile.querySelector(".sure").textContent = sure;
  tile.setAttribute("aria-selected", String(at === cursor));
  tile.setAttribute("aria-posinset", String(at + 1));
  tile.setAttribute("aria-setsize", String(view.length));
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

function showSaved(done) {
  const saved = $("saved");
  const lost = broken && !ended;
  saved.className = `saved ${lost ? "bad" : waiting ? "busy" : "good"}`;
  saved.textContent = lost ? "not saved" : waiting ? "saving …" : "saved";
  saved.dataset.labels = String(done); // what the server has confirmed, once it is "saved"
}

function counts(parts) {
  $("counts").replaceChildren(
    ...parts.map(([what, n]) => {
      const part = element("span");
      part.append(element("b", "", n.toLocaleString("en")), ` ${what}`);
      return part;
    }),
  );
}

function showPhoto(image) {
  if ($("photo").getAttribute("src") !== `/image/${image}`) $("photo").src = `/image/${image}`;
  $("photo").alt = `The image ${data.files[image]}`;
  $("file").textContent = data.files[image];
  for (const next of view.slice(cursor + 1, cursor + 1 + AHEAD)) new Image().src = `/image/${next}`;
}

function showNoPhoto() {
  $("photo").removeAttribute("src");
  $("photo").alt = "";
  for (const id of ["file", "decided"]) $(id).textContent = "";
  $("guesses").replaceChildren();
}

function guessRow(name, share) {
  const row = element("li");
  const bar = element("span", "bar");
  const fill = element("span", "fill");
  fill.style.width = `${100 * share}%`;
  bar.append(fill);
  row.append(element("span", "name", name), element("span", "share", percent(share)), bar);
  return row;
}

// ---- what the person does -----------------------------------------------------------------

function choose(at) {
  if (!view.length) return;
  cursor = Math.min(view.length - 1, Math.max(0, at));
  show();
}

function send(path, body, revert, done) {
  waiting++;
  line = line.then(async () => {
    try {
      if (broken) throw new Error("an earlier change could not be saved");
      const answer = await fetch(path, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(body),
      });
      const refused = answer.status === REFUSED;
      if (!answer.ok && !refused) throw new Error((await answer.text()).trim());
      const content = refused ? (await answer.text()).trim() : await answer.json();
      waiting--;
      refuse(refused ? content : "");
      if (!refused) return done(content);
      revert();
      show();
    } catch (error) {
      waiting--;
      revert();
      fail(error);
      show();
    }
  });
}

function refuse(why) {
  if (refusal !== why) {
    $("trouble").textContent = why && `Not saved: ${why}.`;
    $("trouble").hidden = !why;
  }
  refusal = why;
}

function fail(error) {
  if (broken) return;
  broken = true;
  const lost = error instanceof TypeError; // fetch had no answer
  $("trouble").textContent = lost
    ? "The connection to tamatch is lost. Labels that were not saved have been undone here. Start it again and open the new address; it continues from the saved labels."
    : `Not saved: ${error.message}`;
  $("trouble").hidden = false;
}

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

function click(id, act) {
  $(id).addEventListener("click", (event) => {
    act();
    if (event.detail && !$("help").open) $("grid").focus({ preventScroll: true });
  });
}

click("help-button", () => $("help").showModal());
click("copy", async () => {
  await navigator.clipboard.writeText($("command").textContent);
  $("copied").textContent = "copied";
});
document.querySelector(".filters").addEventListener("submit", (event) => event.preventDefault());
$("grid").addEventListener("scroll", () => requestAnimationFrame(draw), { passive: true });
window.addEventListener("beforeunload", (event) => waiting && event.preventDefault());
