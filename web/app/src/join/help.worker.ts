// The dedicated Worker that helps: everything is in @weft/worker.
import "@weft/worker/threads/main.worker.ts";
