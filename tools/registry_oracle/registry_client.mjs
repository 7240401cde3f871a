// What others keep in the cache of Hugging Face models, and find there: the registry's own client
// for JavaScript, whose layout is that of Python's huggingface_hub.
export { scanCacheDir, snapshotDownload } from '@huggingface/hub';
