#include "common/security/access.h"

#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "proto/coordinator.pb.h"
#include "proto/member.pb.h"
#include "proto/parameter_server.pb.h"

namespace monsoon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Not in a .proto file: the streams of frames, and what all servers answer.
const std::set<std::string> kApart = {"/monsoon.ParameterServer/Data", "/monsoon.Worker/Ping",
                                      "/grpc.health.v1.Health/Check"};

std::set<std::string> MethodsOf(const google::protobuf::FileDescriptor& file) {
  std::set<std::string> methods;
  for (int i = 0; i < file.service_count(); ++i) {
    for (int j = 0; j < file.service(i)->method_count(); ++j) {
      methods.insert(
          absl::StrCat("/", file.service(i)->full_name(), "/", file.service(i)->method(j)->name()));
    }
  }
  return methods;
}

std::set<std::string> Rows() {
  std::set<std::string> rows;
  for (const AccessRow& row : AccessTable()) {
    EXPECT_TRUE(rows.insert(std::string(row.what)).second) << row.what;
  }
  return rows;
}

Caller Member(Role role) {
  Caller caller{.address = "ipv4:10.0.0.5:1"};
  caller.member.emplace().identity = {role, "x", "lab", ""};
  return caller;
}

Caller InColumn(size_t column) {
  return column < kAccessColumns - 1 ? Member(static_cast<Role>(column))
                                     : Caller{.address = "ipv4:10.0.0.5:1"};
}

// Of the job, as far as messages of this kind name one.
DataHeader OfKind(const google::protobuf::FieldDescriptor& kind, const std::string& job = "") {
  DataHeader header;
  google::protobuf::Message* const message = header.GetReflection()->MutableMessage(&header, &kind);
  google::protobuf::Message* names = message;
  if (const auto* session = kind.message_type()->FindFieldByName("session")) {
    names = message->GetReflection()->MutableMessage(message, session);
  }
  if (const auto* field = names->GetDescriptor()->FindFieldByName("job")) {
    names->GetReflection()->SetString(names, field, job);
  }
  return header;
}

TEST(AccessTest, EachMethodAndEachKindOfRequestHasARow) {
  std::set<std::string> expected = kApart;
  expected.merge(MethodsOf(*SubmitRequest::descriptor()->file()));
  expected.merge(MethodsOf(*JoinRequest::descriptor()->file()));
  expected.merge(MethodsOf(*ShardStatusRequest::descriptor()->file()));
  const google::protobuf::OneofDescriptor& kinds = *DataHeader::descriptor()->oneof_decl(0);
  for (int i = 0; i < kinds.field_count(); ++i) {
    const std::string& name = kinds.field(i)->name();
    // Answers come to clients alone.
    if (!absl::EndsWith(name, "_reply") && name != "error") {
      expected.insert("frame " + name);
    }
  }
  EXPECT_EQ(Rows(), expected);
}

TEST(AccessTest, ThePageForPeopleHasTheSameTable) {
  std::string table = "|";
  std::string line = "\n|---|";
  for (size_t column = 0; column < kAccessColumns; ++column) {
    absl::StrAppend(&table, " | ", AccessColumn(column));
    line += "---|";
  }
  absl::StrAppend(&table, " |", line, "\n");
  for (const AccessRow& row : AccessTable()) {
    absl::StrAppend(&table, "| `", row.what, "`");
    for (const bool allowed : row.allowed) {
      absl::StrAppend(&table, " | ", allowed ? "yes" : "");
    }
    table += " |\n";
  }
  std::ifstream file("SECURITY.md");
  std::stringstream page;
  page << file.rdbuf();
  EXPECT_THAT(page.str(), HasSubstr(table));
}

TEST(AccessTest, WhatIsAllowedIsWhatTheTableSays) {
  for (const AccessRow& row : AccessTable()) {
    if (absl::StartsWith(row.what, "frame ")) {
      continue;
    }
    for (size_t column = 0; column < kAccessColumns; ++column) {
      EXPECT_EQ(CheckCall(InColumn(column), row.what).ok(), row.allowed[column])
          << row.what << " " << AccessColumn(column);
    }
  }
}

TEST(AccessTest, AFrameGoesByItsKind) {
  const google::protobuf::OneofDescriptor& kinds = *DataHeader::descriptor()->oneof_decl(0);
  for (int i = 0; i < kinds.field_count(); ++i) {
    const AccessRow* row = nullptr;
    for (const AccessRow& candidate : AccessTable()) {
      row = candidate.what == "frame " + kinds.field(i)->name() ? &candidate : row;
    }
    const DataHeader request = OfKind(*kinds.field(i));
    for (size_t column = 0; column < kAccessColumns; ++column) {
      EXPECT_EQ(CheckFrame(InColumn(column), request).ok(), row != nullptr && row->allowed[column])
          << kinds.field(i)->name() << " " << AccessColumn(column);
    }
  }
}

TEST(AccessTest, WhoIsThereForOneJobSendsFramesOfItAlone) {
  const google::protobuf::OneofDescriptor& kinds = *DataHeader::descriptor()->oneof_decl(0);
  for (int i = 0; i < kinds.field_count(); ++i) {
    const google::protobuf::FieldDescriptor& kind = *kinds.field(i);
    for (const Role role : {Role::kWorker, Role::kOperator, Role::kViewer}) {
      if (!CheckFrame(Member(role), OfKind(kind)).ok()) {
        continue;
      }
      Caller bound = Member(role);
      bound.member->identity.job = "lenet-1";
      if (kind.name() == "peer") {  // a group is of no job that a frame would name
        EXPECT_TRUE(absl::IsPermissionDenied(CheckFrame(bound, OfKind(kind))));
        continue;
      }
      EXPECT_TRUE(CheckFrame(bound, OfKind(kind, "lenet-1")).ok()) << kind.name();
      for (const char* job : {"", "lenet-2", "lenet-11", "lenet-"}) {
        const absl::Status refused = CheckFrame(bound, OfKind(kind, job));
        EXPECT_TRUE(absl::IsPermissionDenied(refused)) << kind.name() << " " << job;
        EXPECT_THAT(std::string(refused.message()),
                    AllOf(HasSubstr("/x has joined for job lenet-1 alone"), HasSubstr(job)));
      }
      EXPECT_TRUE(CheckFrame(Member(role), OfKind(kind, "lenet-2")).ok()) << kind.name();
    }
  }
}

// By its session's job a write is served, whatever job it names beside that.
TEST(AccessTest, AWriteOfASessionIsOfItsJob) {
  Caller bound = Member(Role::kWorker);
  bound.member->identity.job = "lenet-1";
  DataHeader header;
  header.mutable_write()->set_job("lenet-1");
  EXPECT_TRUE(CheckFrame(bound, header).ok());
  header.mutable_write()->mutable_session()->set_job("lenet-2");
  EXPECT_TRUE(absl::IsPermissionDenied(CheckFrame(bound, header)));
  header.mutable_write()->set_job("lenet-2");
  header.mutable_write()->mutable_session()->set_job("lenet-1");
  EXPECT_TRUE(CheckFrame(bound, header).ok());
}

TEST(AccessTest, WhatChangesAJobIsTheCoordinatorsOrAnOperatorsAlone) {
  for (const char* method : {"CreateJob", "DeleteJob", "RestoreJob", "OpenSession", "CloseSession",
                             "Vector", "ReduceRate", "Adopt", "ChangeSettings", "Checkpoint"}) {
    for (const Role role : {Role::kPs, Role::kWorker, Role::kOperator, Role::kViewer}) {
      EXPECT_FALSE(CheckCall(Member(role), absl::StrCat("/monsoon.ParameterServer/", method)).ok())
          << method;
    }
  }
  for (const char* method : {"Submit", "Start", "Cancel", "Delete", "Drain", "GiveUp", "Set"}) {
    for (const Role role : {Role::kCoordinator, Role::kPs, Role::kWorker, Role::kViewer}) {
      EXPECT_FALSE(CheckCall(Member(role), absl::StrCat("/monsoon.JobService/", method)).ok())
          << method;
    }
  }
}

TEST(AccessTest, ARefusalSaysWhoMay) {
  const absl::Status refused = CheckCall(Member(Role::kViewer), "/monsoon.JobService/Submit");
  EXPECT_TRUE(absl::IsPermissionDenied(refused));
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("is for who joined as operator"), HasSubstr("viewer/x")));
  const absl::Status stranger =
      CheckCall(Caller{.address = "ipv4:10.0.0.5:1"}, "/monsoon.JobService/List");
  EXPECT_TRUE(absl::IsUnauthenticated(stranger));
  EXPECT_THAT(std::string(stranger.message()),
              AllOf(HasSubstr("or viewer"), HasSubstr("join the cluster first")));
}

TEST(AccessTest, WhatHasNoRowIsOpenToNobody) {
  for (size_t column = 0; column < kAccessColumns; ++column) {
    EXPECT_TRUE(
        absl::IsPermissionDenied(CheckCall(InColumn(column), "/monsoon.JobService/Surprise")));
  }
}

TEST(AccessTest, AnOpenServerRefusesNothing) {
  EXPECT_TRUE(CheckCall({.open = true}, "/monsoon.JobService/Surprise").ok());
  DataHeader push;
  push.mutable_push()->mutable_session()->set_job("lenet-2");
  EXPECT_TRUE(CheckFrame({.open = true}, push).ok());
  // Not even who shows a certificate there.
  Caller bound = Member(Role::kViewer);
  bound.open = true;
  bound.member->identity.job = "lenet-1";
  EXPECT_TRUE(CheckFrame(bound, push).ok());
}

}  // namespace
}  // namespace monsoon
