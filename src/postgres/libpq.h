// Libpq: PostgreSQL's own client library, loaded when somebody names a database. A program that
// keeps its state in SQLite does not need it.
#pragma once

#include <libpq-fe.h>

#include "base/result.h"

namespace weft::postgres {

// Each member is the library's function of that name.
struct Libpq {
  decltype(&::PQclear) PQclear;
  decltype(&::PQcmdTuples) PQcmdTuples;
  decltype(&::PQconnectdbParams) PQconnectdbParams;
  decltype(&::PQconninfoFree) PQconninfoFree;
  decltype(&::PQconninfoParse) PQconninfoParse;
  decltype(&::PQconsumeInput) PQconsumeInput;
  decltype(&::PQenterPipelineMode) PQenterPipelineMode;
  decltype(&::PQerrorMessage) PQerrorMessage;
  decltype(&::PQfinish) PQfinish;
  decltype(&::PQflush) PQflush;
  decltype(&::PQfreemem) PQfreemem;
  decltype(&::PQgetResult) PQgetResult;
  decltype(&::PQgetisnull) PQgetisnull;
  decltype(&::PQgetlength) PQgetlength;
  decltype(&::PQgetvalue) PQgetvalue;
  decltype(&::PQisBusy) PQisBusy;
  decltype(&::PQnfields) PQnfields;
  decltype(&::PQntuples) PQntuples;
  decltype(&::PQpipelineSync) PQpipelineSync;
  decltype(&::PQresultErrorField) PQresultErrorField;
  decltype(&::PQresultStatus) PQresultStatus;
  decltype(&::PQsendQueryParams) PQsendQueryParams;
  decltype(&::PQsetnonblocking) PQsetnonblocking;
  decltype(&::PQsetNoticeProcessor) PQsetNoticeProcessor;
  decltype(&::PQsocket) PQsocket;
  decltype(&::PQstatus) PQstatus;

  // Loads it once for the process. kUnsupported: it is not installed, or too old (before 14).
  static Result<const Libpq*> Load();
};

}  // namespace weft::postgres
