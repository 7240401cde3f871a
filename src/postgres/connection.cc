#include "postgres/connection.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/bytes.h"
#include "base/sentence.h"

namespace weft::postgres {
namespace {

constexpr Oid kBytea = 17;
constexpr Oid kUnknown = 0;  // the database finds out what is meant
// So long after the database itself should have given up a statement.
constexpr Duration kAnswerSlack = Seconds(1);

// A message of several lines as a part of a sentence.
std::string OneLine(const char* message) {
  std::string line;
  for (const char c : std::string_view(message == nullptr ? "" : message))
    line += c == '\n' ? ' ' : c;
  while (!line.empty() && (line.back() == ' ' || line.back() == '.')) line.pop_back();
  return line;
}

// SQLSTATE, of which the first two characters are the class.
ErrorCode CodeOf(std::string_view state) {
  if (state == "23505") return ErrorCode::kAlreadyExists;     // unique_violation
  if (state == "42501") return ErrorCode::kPermissionDenied;  // insufficient_privilege
  if (state == "42P01" || state == "42703") return ErrorCode::kInvalidData;  // no table, column
  // Connections, resources, intervention, a read-only transaction, a serialisation failure.
  for (const std::string_view kind : {"08", "53", "57", "25", "40", "58"})
    if (state.starts_with(kind)) return ErrorCode::kUnavailable;
  return ErrorCode::kInvalidArgument;
}

template <typename Number>
Number NumberOf(const std::string& text) {
  Number number{};
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

int64_t Row::Int(size_t column) const {
  return NumberOf<int64_t>(Text(column));
}

double Row::Real(size_t column) const {
  return NumberOf<double>(Text(column));
}

// PostgreSQL writes bytea as \x00ff.
std::vector<uint8_t> Row::Bytes(size_t column) const {
  const std::string text = Text(column);
  if (!text.starts_with("\\x")) return {};
  return FromHex(std::string_view(text).substr(2)).value_or(std::vector<uint8_t>());
}

Status CheckUrl(const std::string& url) {
  ASSIGN_OR_RETURN(const Libpq* libpq, Libpq::Load());
  char* why = nullptr;
  PQconninfoOption* const options = libpq->PQconninfoParse(url.c_str(), &why);
  if (options != nullptr) {
    libpq->PQconninfoFree(options);
    return OkStatus();
  }
  const std::string reason = OneLine(why);
  libpq->PQfreemem(why);
  return Error(ErrorCode::kInvalidArgument, "The address of the database is none (" + reason +
                                                "); expected postgres://USER@HOST/DATABASE.");
}

Connection::Connection(net::EventLoop& loop, const Libpq& libpq, ConnectionOptions options)
    : loop_(loop),
      libpq_(libpq),
      options_(std::move(options)),
      connection_(nullptr, Close{&libpq}),
      retry_timer_(loop),
      answer_timer_(loop) {
  BeginConnecting();
}

Connection::~Connection() {
  thread_.Stop();
  watch_.reset();
}

// A look-up of names, a TLS handshake and a choice among several hosts take as long as they take:
// the thread waits for them. From then on the loop has the connection.
void Connection::BeginConnecting() {
  thread_.Push([this, alive = std::weak_ptr(alive_)] {
    const std::string limit =
        std::to_string(std::max<int64_t>(options_.connect_limit.us / 1'000'000, 2));
    const std::string settings =
        "-c statement_timeout=" + std::to_string(options_.answer_limit.us / 1000);
    const std::array<const char*, 8> names = {
        "dbname",     "connect_timeout",      "options",         "application_name",
        "gssencmode", "target_session_attrs", "keepalives_idle", nullptr};
    const std::array<const char*, 8> values = {
        options_.url.c_str(), limit.c_str(), settings.c_str(), "weft", "disable",
        "read-write",         "10",          nullptr};
    auto made = std::make_shared<Handle>(
        libpq_.PQconnectdbParams(names.data(), values.data(), /*expand_dbname=*/1), Close{&libpq_});
    // Its notices would go to the terminal; what matters of them comes as an error.
    libpq_.PQsetNoticeProcessor(
        made->get(), [](void*, const char*) {}, nullptr);
    std::string problem;
    if (libpq_.PQstatus(made->get()) != CONNECTION_OK)
      problem = OneLine(libpq_.PQerrorMessage(made->get()));
    else if (libpq_.PQsetnonblocking(made->get(), 1) != 0 ||
             libpq_.PQenterPipelineMode(made->get()) != 1)
      problem = "it takes no statements in a pipeline";
    loop_.Post([this, alive, made, problem] {
      if (!alive.expired()) OnConnected(std::move(*made), problem);
    });
  });
}

void Connection::OnConnected(Handle made, const std::string& problem) {
  if (!problem.empty()) {
    problem_ = problem;
    retry_timer_.FireAfter(options_.retry_interval, [this] { BeginConnecting(); });
    if (on_line_) on_line_(false);
    return;
  }
  problem_.clear();
  connection_ = std::move(made);
  watch_ = std::make_unique<net::SocketWatch>(loop_, libpq_.PQsocket(connection_.get()));
  watch_->OnReadable([this] { OnReadable(); });
  if (on_line_) on_line_(true);
}

void Connection::Refuse(Then then, const std::string& why) {
  loop_.Post([alive = std::weak_ptr(alive_), then = std::move(then), why] {
    if (!alive.expired()) then(Error(ErrorCode::kUnavailable, why));
  });
}

void Connection::Ask(std::string sql, std::vector<Value> values, Then then) {
  if (connection_ == nullptr)
    return Refuse(std::move(then), "There is no line to the database" +
                                       (problem_.empty() ? "." : " (" + problem_ + ")."));
  std::vector<std::string> texts(values.size());
  std::vector<const char*> pointers(values.size(), nullptr);
  std::vector<int> lengths(values.size(), 0), formats(values.size(), 0);
  std::vector<Oid> types(values.size(), kUnknown);
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::holds_alternative<std::nullptr_t>(values[i])) continue;
    if (const auto* bytes = std::get_if<std::vector<uint8_t>>(&values[i])) {
      texts[i] = std::string(AsText(*bytes));
      types[i] = kBytea;
      formats[i] = 1;
    } else if (const auto* text = std::get_if<std::string>(&values[i])) {
      texts[i] = *text;
    } else if (const auto* number = std::get_if<int64_t>(&values[i])) {
      texts[i] = std::to_string(*number);
    } else {
      std::array<char, 32> written;
      const auto end = std::to_chars(written.data(), written.data() + written.size(),
                                     std::get<double>(values[i]));
      texts[i].assign(written.data(), end.ptr);
    }
    pointers[i] = texts[i].c_str();
    lengths[i] = static_cast<int>(texts[i].size());
  }
  if (libpq_.PQsendQueryParams(connection_.get(), sql.c_str(), static_cast<int>(values.size()),
                               types.data(), pointers.data(), lengths.data(), formats.data(),
                               /*resultFormat=*/0) != 1 ||
      libpq_.PQpipelineSync(connection_.get()) != 1) {
    Refuse(std::move(then), "The database was not asked.");
    return loop_.Post([this, alive = std::weak_ptr(alive_),
                       why = OneLine(libpq_.PQerrorMessage(connection_.get()))] {
      if (!alive.expired()) Break(why);
    });
  }
  asked_.push_back(
      {std::move(then), MonotonicNow() + options_.answer_limit + kAnswerSlack, std::nullopt});
  if (asked_.size() == 1) WatchTime();
  Flush();
}

// One timer for the oldest statement: a line on which nothing comes any more is broken.
void Connection::WatchTime() {
  if (asked_.empty()) return answer_timer_.Cancel();
  answer_timer_.FireAfter(std::max(asked_.front().until - MonotonicNow(), Milliseconds(1)), [this] {
    if (asked_.empty()) return;
    if (asked_.front().until > MonotonicNow()) return WatchTime();
    Break("it did not answer in " +
          std::to_string((options_.answer_limit + kAnswerSlack).us / 1'000'000) + " s");
  });
}

void Connection::Flush() {
  if (is_flushing_ || connection_ == nullptr) return;
  const int left = libpq_.PQflush(connection_.get());
  if (left < 0) return Break(OneLine(libpq_.PQerrorMessage(connection_.get())));
  if (left == 0) return;
  is_flushing_ = true;
  watch_->AwaitWritable([this] {
    is_flushing_ = false;
    Flush();
  });
}

void Connection::OnReadable() {
  if (libpq_.PQconsumeInput(connection_.get()) != 1)
    return Break(OneLine(libpq_.PQerrorMessage(connection_.get())));
  const std::weak_ptr<bool> alive = alive_;
  // Whoever is told may end this, or break the line.
  while (!alive.expired() && connection_ != nullptr && ReadResults()) {
  }
  if (!alive.expired()) Flush();
}

// A statement's answer is one result, then none; behind it stands the end of its transaction.
bool Connection::ReadResults() {
  if (asked_.empty() || libpq_.PQisBusy(connection_.get()) != 0) return false;
  PGresult* const result = libpq_.PQgetResult(connection_.get());
  if (result == nullptr) return true;
  const std::unique_ptr<PGresult, void (*)(PGresult*)> owned(result, libpq_.PQclear);
  Asked& asked = asked_.front();
  switch (libpq_.PQresultStatus(result)) {
    case PGRES_COMMAND_OK:
    case PGRES_TUPLES_OK: {
      Answer answer;
      answer.changed_rows = NumberOf<int64_t>(libpq_.PQcmdTuples(result));
      const int columns = libpq_.PQnfields(result);
      for (int row = 0; row < libpq_.PQntuples(result); ++row) {
        std::vector<std::optional<std::string>> texts(static_cast<size_t>(columns));
        for (int column = 0; column < columns; ++column)
          if (libpq_.PQgetisnull(result, row, column) == 0)
            texts[static_cast<size_t>(column)] =
                std::string(libpq_.PQgetvalue(result, row, column),
                            static_cast<size_t>(libpq_.PQgetlength(result, row, column)));
        answer.rows.emplace_back(std::move(texts));
      }
      asked.answer = std::move(answer);
      return true;
    }
    case PGRES_PIPELINE_SYNC: {
      Asked done = std::move(asked);
      asked_.pop_front();
      if (!asked_.empty()) WatchTime();
      const std::weak_ptr<bool> alive = alive_;
      done.then(done.answer ? std::move(*done.answer)
                            : Result<Answer>(
                                  Error(ErrorCode::kUnavailable, "The database gave no answer.")));
      return !alive.expired();
    }
    default: {
      const char* const state = libpq_.PQresultErrorField(result, PG_DIAG_SQLSTATE);
      const char* const why = libpq_.PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
      asked.answer = Error(CodeOf(state == nullptr ? "08000" : state),
                           "The database refused a statement: " + OneLine(why) + ".");
      return true;
    }
  }
}

void Connection::Break(const std::string& why) {
  if (connection_ == nullptr) return;
  problem_ = why;
  watch_.reset();
  is_flushing_ = false;
  connection_.reset();
  answer_timer_.Cancel();
  retry_timer_.FireAfter(options_.retry_interval, [this] { BeginConnecting(); });
  const std::weak_ptr<bool> alive = alive_;
  for (Asked& asked : std::exchange(asked_, {})) {
    if (alive.expired()) return;
    asked.then(Error(ErrorCode::kUnavailable, "The line to the database broke (" + why + ")."));
  }
  if (!alive.expired() && on_line_) on_line_(false);
}

}  // namespace weft::postgres
