#include "postgres/libpq.h"

#include <dlfcn.h>

#include <string>

namespace weft::postgres {
namespace {

// The library stays loaded: its threads and TLS do not end with a connection.
Result<Libpq> LoadOnce() {
  void* const library = dlopen("libpq.so.5", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return Error(ErrorCode::kUnsupported,
                 "PostgreSQL's client library (libpq.so.5) cannot be loaded. Install it: apt-get "
                 "install libpq5.");
  Libpq libpq{};
  std::string missing;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    if (function == nullptr && missing.empty()) missing = name;
  };
#define WEFT_FIND(name) find(libpq.name, #name)
  WEFT_FIND(PQclear);
  WEFT_FIND(PQcmdTuples);
  WEFT_FIND(PQconnectdbParams);
  WEFT_FIND(PQconninfoFree);
  WEFT_FIND(PQconninfoParse);
  WEFT_FIND(PQconsumeInput);
  WEFT_FIND(PQenterPipelineMode);
  WEFT_FIND(PQerrorMessage);
  WEFT_FIND(PQfinish);
  WEFT_FIND(PQflush);
  WEFT_FIND(PQfreemem);
  WEFT_FIND(PQgetResult);
  WEFT_FIND(PQgetisnull);
  WEFT_FIND(PQgetlength);
  WEFT_FIND(PQgetvalue);
  WEFT_FIND(PQisBusy);
  WEFT_FIND(PQnfields);
  WEFT_FIND(PQntuples);
  WEFT_FIND(PQpipelineSync);
  WEFT_FIND(PQresultErrorField);
  WEFT_FIND(PQresultStatus);
  WEFT_FIND(PQsendQueryParams);
  WEFT_FIND(PQsetnonblocking);
  WEFT_FIND(PQsetNoticeProcessor);
  WEFT_FIND(PQsocket);
  WEFT_FIND(PQstatus);
#undef WEFT_FIND
  if (missing.empty()) return libpq;
  return Error(ErrorCode::kUnsupported, "PostgreSQL's client library (libpq.so.5) has no " +
                                            missing + ": it needs version 14 or later.");
}

}  // namespace

Result<const Libpq*> Libpq::Load() {
  static const Result<Libpq> loaded = LoadOnce();
  if (!loaded.ok()) return loaded.error();
  return &*loaded;
}

}  // namespace weft::postgres
