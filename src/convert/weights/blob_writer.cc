#include "convert/weights/blob_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <future>

#include "base/file.h"
#include "base/random.h"

namespace weft::convert {

namespace fs = std::filesystem;

Result<std::unique_ptr<BlobWriter>> BlobWriter::Open(const fs::path& folder) {
  std::unique_ptr<BlobWriter> writer(new BlobWriter);
  writer->folder_ = folder;
  writer->path_ = folder / ("unfinished-" + SecureRandomHex(8));
  writer->fd_ =
      Descriptor(open(writer->path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!writer->fd_.is_open()) return SystemError("Cannot create", writer->path_);
  return writer;
}

BlobWriter::~BlobWriter() {
  if (fd_.is_open()) unlink(path_.c_str());
}

void BlobWriter::HashChunks(ByteSpan bytes) {
  while (!bytes.empty()) {
    const size_t count = std::min<size_t>(package::kChunkBytes - chunk_fill_, bytes.size());
    chunk_.Update(bytes.first(count));
    chunk_fill_ += count;
    bytes = bytes.subspan(count);
    if (chunk_fill_ < package::kChunkBytes) continue;
    chunks_.push_back(chunk_.Finish());
    chunk_ = Sha256Stream();
    chunk_fill_ = 0;
  }
}

Status BlobWriter::Append(ByteSpan bytes) {
  // Two hashes of the same bytes: the longer pieces are worth a second thread.
  std::future<void> chunks;
  if (bytes.size() >= (256 << 10)) {
    chunks = std::async(std::launch::async, [this, bytes] { HashChunks(bytes); });
  } else {
    HashChunks(bytes);
  }
  whole_.Update(bytes);
  byte_count_ += bytes.size();
  while (!bytes.empty()) {
    const ssize_t count = write(fd_.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SystemError("Cannot write", path_);
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
  return OkStatus();
}

Result<uint64_t> BlobWriter::Align(uint64_t alignment) {
  const std::vector<uint8_t> zeros((alignment - byte_count_ % alignment) % alignment);
  TRY(Append(zeros));
  return byte_count_;
}

Result<BlobWriter::Finished> BlobWriter::Finish() {
  CHECK(fd_.is_open() && byte_count_ > 0);
  if (chunk_fill_ > 0) chunks_.push_back(chunk_.Finish());
  Finished finished{package::Digest(whole_.Finish()), {byte_count_, std::move(chunks_)}};
  if (close(fd_.Release()) != 0) {
    Error error = SystemError("Cannot write", path_);
    unlink(path_.c_str());
    return error;
  }
  const fs::path path = folder_ / finished.digest.ToHex();
  if (rename(path_.c_str(), path.c_str()) != 0) {
    Error error = SystemError("Cannot rename to", path);
    unlink(path_.c_str());
    return error;
  }
  return finished;
}

}  // namespace weft::convert
