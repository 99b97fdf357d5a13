import Foundation
import Journal
import Listing
import Testing

@testable import Diagnosis
@testable import NostrUplink
@testable import Presence
@testable import SocialDaemon

@Suite("Message IDs of the journal catalog")
struct MessageTests {
  private let ids = ServiceList.all.messages + MessageID.social + MessageID.presence + MessageID.uplink

  @Test("Every message ID is 32 lower-case hex digits, and message IDs and names are unique")
  func areDistinct() {
    for id in ids {
      #expect(id.hex.utf8.count == 32)
      #expect(id.hex.allSatisfy { "0123456789abcdef".contains($0) })
    }
    #expect(Set(ids.map(\.hex)).count == ids.count)
    #expect(Set(ids.map(\.name)).count == ids.count)
  }

  @Test("The journal catalog explains exactly the message IDs that the sources use")
  func areListed() throws {
    let top = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().deletingLastPathComponent().appending(path: "Sources")
    let paths = try #require(FileManager.default.enumerator(atPath: top.path)).compactMap { $0 as? String }
    var made: [String] = []
    for path in paths where path.hasSuffix(".swift") {
      let text = try String(contentsOf: top.appending(path: path), encoding: .utf8)
      made += text.matches(of: /MessageID\(\s*"\w+",\s*"(\w+)"/).map { String($0.1) }
    }
    #expect(made.sorted() == ids.map(\.hex).sorted())
    let entries = MessageCatalog.text(ids).split(separator: "\n").filter { $0.hasPrefix("-- ") }
    #expect(entries.map { String($0.dropFirst(3)) } == ids.map(\.hex))
  }

  @Test("Every message ID has a subject of one line and an explanation in whole sentences")
  func areExplained() {
    for id in ids {
      #expect(!id.subject.isEmpty && !id.subject.contains("\n") && !id.subject.hasSuffix("."), "\(id.name)")
      #expect(id.explanation.hasSuffix("."), "\(id.name)")
      let lines = id.explanation.split(separator: "\n", omittingEmptySubsequences: false)
      #expect(lines.allSatisfy { $0.count <= 116 && !$0.hasPrefix("-- ") }, "\(id.name)")
    }
  }

  @Test("The report knows the names of the messages of every daemon")
  func areReported() {
    let others = MessageID.social + MessageID.presence + MessageID.uplink
    #expect(DaemonMessages.names == Dictionary(uniqueKeysWithValues: others.map { ($0.hex, $0.name) }))
  }

  /// The message IDs in existing journals. An ID may be added, but never changed.
  private static let fixed = [
    "Started": "26fe3d04de69688b21438e9761cf28cc", "Stopping": "6f06adf93711db516f827cc99ceab8b4",
    "RadioReady": "34542aa0e85927cb49e6182f38439483", "RadioWaiting": "5d727c0e1976376af0102f83095fa440",
    "RadioLost": "23468551b981d066f47188de8ace057a", "RadioDegraded": "10f9b8258aa2bc47605f0f3c3c8c489a",
    "AdapterMissing": "4d40754d08b2f9c6bb3e175a7f6eb055", "VerifierStarted": "126a4b4a1febe225d5c2be2d70d8642c",
    "VerifierStopped": "b84bedaf69ee69f51b43c6ef4deda512", "TransferStarted": "fff04e470c91a569030c1d3c1d7fa8d4",
    "TransferReceived": "1cd16c48ebddc5a73c6978e05e9433d7", "TransferFailed": "2d51f9e5ebd24137c7abf282fce405e1",
    "TransferRefused": "d0ef6b7df1f49e757dfda75db0bc9b03", "TransferDecided": "36848d2c64725fb8afcc7139298aad71",
    "ConfigurationProblem": "b25b9efb4ce0942e999afd6ee0231b65",
    "ConfigurationReloaded": "2d29e4169664e9b9587001e6020bf9df",
    "MemoryExposed": "aa9bffcaff3f3cb664015ba1d46c6cad", "StoreDegraded": "3feba97f482e266e0a3c11b3fc7d7070",
    "StoreRestored": "1d56dc07f6472cea181e8a833336a198", "BusLost": "709e8a41207ea9f9495baeb33f89338f",
    "BusBack": "158aa217cf5b834a7ce0004139dc3747", "ScanRestarted": "19d4209ad7e74fd5a7bb05c6943828c2",
  ]

  @Test("The message IDs of earlier releases are unchanged")
  func areFixed() {
    let known = Dictionary(uniqueKeysWithValues: ids.map { ($0.name, $0.hex) })
    for (name, hex) in Self.fixed { #expect(known[name] == hex, "\(name)") }
  }
}
