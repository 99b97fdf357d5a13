import Common
import DBus
import Terminal
import Tool
import Transfers

/// Transfer according to its D-Bus properties.
struct TransferView: Sendable, Equatable {
  static let interface = CredentialObjects.interfaceName
  private static let ends: Set<String> = ["accepted", "rejected", "undecided", "failed"]

  let path: ObjectPath
  private(set) var properties: [String: DBusValue]

  init(_ path: ObjectPath, _ properties: [String: DBusValue]) {
    self.path = path
    self.properties = properties
  }

  mutating func update(_ values: [String: DBusValue]) {
    properties.merge(values) { $1 }
  }

  /// Last part of the path, such as `credential7`.
  var name: String { path.string.split(separator: "/").last.map(String.init) ?? "" }
  var state: String { text("State") }
  var isUnderWay: Bool { state == "connected" || state == "transferring" }
  var isEnded: Bool { Self.ends.contains(state) }
  var isFailed: Bool { state == "failed" }
  var isIncoming: Bool { text("Direction") != "outgoing" }
  /// Whether the phone is connected, or its link is being established.
  var isLive: Bool { properties["Live"]?.asBool ?? false }
  var isFetched: Bool { properties["Fetched"]?.asBool ?? false }
  var peer: String { text("Peer") }
  var errorCode: String { text("ErrorCode") }
  /// Code and sentence, such as `TVV_TRA_002: 64 of 82 chunks are missing.`, or the code alone if the program may not
  /// see the sentence.
  var error: String { [errorCode, text("ErrorMessage")].filter { !$0.isEmpty }.joined(separator: ": ") }

  /// Delivery of the verdict, `sent` or `peerGone`; empty before a verdict.
  var verdictDelivery: String { text("VerdictDelivery") }
  /// Sentence to append to the report of a verdict, with a leading space; empty if the phone was notified.
  var deliveryNote: String {
    verdictDelivery == "peerGone" ? " The phone had already left and was not notified." : ""
  }

  // MARK: Times, in milliseconds since 1970-01-01 UTC; 0 if there is none

  var startedAt: UInt64 { number("StartedAt") }
  var receivedAt: UInt64 { number("ReceivedAt") }
  var expiresAt: UInt64 { number("ExpiresAt") }
  var verdictDeadline: UInt64 { number("VerdictDeadline") }

  // MARK: Sizes

  /// Size of the credential in bytes; 0 if unknown.
  var size: Int { Int(clamping: number("Size")) }

  /// Size such as `1.2 KiB`; for a transfer in progress the received part of the encrypted frame: `40 KiB of 210 KiB`.
  var sizeText: String {
    let (done, expected) = (number("BytesTransferred"), number("BytesExpected"))
    if state == "transferring", expected > 0 { return "\(humanBytes(done)) of \(humanBytes(expected))" }
    return size > 0 ? humanBytes(size) : done > 0 ? humanBytes(done) : ""
  }

  /// Progress bar of the transfer.
  ///
  /// - Parameter elapsed: time since the transfer was first seen; nil for a bar without a rate.
  func bar(_ label: String, after elapsed: Duration?) -> ProgressBar {
    let (done, expected) = (Int(clamping: number("BytesTransferred")), Int(clamping: number("BytesExpected")))
    let milliseconds = Int((elapsed ?? .zero) / .milliseconds(1))
    return ProgressBar(
      label: label, done: done, total: expected > 0 ? expected : nil,
      rate: milliseconds > 200 ? done * 1000 / milliseconds : nil)
  }

  private func text(_ name: String) -> String { properties[name]?.text ?? "" }
  private func number(_ name: String) -> UInt64 { UInt64(clamping: properties[name]?.asInteger ?? 0) }
}

extension Client {
  /// Reads all properties of a transfer, including peer and error sentence, which signals lack. Empty if the object is
  /// gone.
  func transferProperties(_ path: ObjectPath) async -> [String: DBusValue] {
    (try? await properties(path, TransferView.interface)) ?? [:]
  }

  /// Claims of a transfer's credential as JSON; nil if the service has none.
  func claims(of path: ObjectPath) async -> String? {
    (try? await call(path, TransferView.interface, "GetClaims"))?.first?.asString
  }
}
