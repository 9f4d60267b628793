// Requests to the server. Pictures are fetched as blobs, because <img> cannot send the token.

const dialog = document.querySelector("#token");
const CACHED_PICTURES = 400;
const pictures = new Map();
let asking = null;

export async function ask(path, options = {}) {
  const token = sessionStorage.getItem("token");
  const headers = new Headers(options.headers);
  if (token) headers.set("Authorization", `Bearer ${token}`);
  const response = await fetch(path, { ...options, headers }).catch((error) => {
    throw error.name === "AbortError" ? error : new Error("The server does not respond.");
  });
  if (response.status !== 401) return response;
  await newToken(token);
  return ask(path, options);
}

export async function json(path, options) {
  const response = await ask(path, options);
  const answer = await response.json();
  if (!response.ok && !answer.positions) throw new Error(answer.error);
  return answer;
}

export function picture(path) {
  if (!pictures.has(path)) {
    pictures.set(path, blob(path));
    if (pictures.size > CACHED_PICTURES) forget(pictures.keys().next().value);
  }
  return pictures.get(path);
}

export async function blob(path) {
  const response = await ask(path);
  if (!response.ok) throw new Error((await response.json()).error);
  const data = await response.blob();
  return { data, url: URL.createObjectURL(data) };
}

export const landmarkImage = (id) => `landmarks/${encoded(id)}/image`;

export function locate(files, { sequence = false, signal } = {}) {
  const form = new FormData();
  for (const file of files) form.append("images", file, file.name || "pasted image");
  return json(`locate?top_k=5&sequence=${sequence}`, { method: "POST", body: form, signal });
}

function encoded(id) {
  return id.split("/").map(encodeURIComponent).join("/");
}

function forget(path) {
  pictures.get(path).then(
    ({ url }) => URL.revokeObjectURL(url),
    () => {},
  );
  pictures.delete(path);
}

// Several requests that fail at the same time wait for the same dialog.
function newToken(refused) {
  if (sessionStorage.getItem("token") !== refused) return Promise.resolve();
  asking ??= new Promise((resolve) => {
    const value = document.querySelector("#token-value");
    if (refused) document.querySelector("#token-note").textContent = "The token is wrong.";
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    dialog.addEventListener(
      "close",
      () => {
        sessionStorage.setItem("token", value.value.trim());
        value.value = "";
        asking = null;
        resolve();
      },
      { once: true },
    );
    dialog.showModal();
  });
  return asking;
}
