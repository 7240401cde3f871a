// The dedicated Worker that helps: everything is in @weft/worker.
import "@weft/worker/main.worker.ts";
