import CommandLine
import DBus
import Loop
import Tool

/// Commands of `earshot nearby` that make one request to the service.
@LoopActor
struct NearbyCommand {
  private let client: Client
  private let line: ParsedCommand

  init(_ client: Client, _ line: ParsedCommand) {
    self.client = client
    self.line = line
  }

  func show() async throws(Failure) -> ExitCode {
    try await client.connect()
    let view = NearbyView(
      try await client.properties(
        BroadcastNames.path, BroadcastNames.interface, of: BroadcastNames.feature))
    if line.flag("json") { Output.json(NearbyShown.json(view)) } else { Output.write(NearbyShown.text(view)) }
    return .ok
  }

  func notify() async throws(Failure) -> ExitCode {
    try await client.connect()
    return try await Interruption.hold(
      unanswered: "The service does not answer, and may broadcast the notification later."
    ) { _ throws(Failure) in
      try await client.nearby("Notify")
      report("The notification is broadcast for a minute.", [.init("notified", true)])
      return .ok
    }
  }

  func cancel() async throws(Failure) -> ExitCode {
    let word = line.argument("N") ?? ""
    guard let number = UInt64(word), word.allSatisfy(\.isNumber) else {
      throw Failure(.usage, "N is the number of a message, as earshot nearby send --no-wait writes it.")
    }
    try await client.connect()
    try await client.nearby("Cancel", .uint64(number))
    report("Message \(number) is cancelled.", [.init("cancelled", .unsigned(number))])
    return .ok
  }

  func limit() async throws(Failure) -> ExitCode {
    let word = line.argument("N") ?? ""
    guard let limit = UInt32(word), limit <= 100, word.allSatisfy(\.isNumber) else {
      throw Failure(.usage, "N is a number from 0 to 100.")
    }
    try await client.connect()
    try await client.call(
      BroadcastNames.path, "org.freedesktop.DBus.Properties", "Set",
      [.string(BroadcastNames.interface), .string("NotifyLimit"), .variant(.uint32(limit))], of: BroadcastNames.feature)
    report(
      limit == 0
        ? "Notifications are no longer reported on this machine."
        : "At most \(limit) notifications a day are reported on this machine.",
      [.init("notifyLimit", .int(Int64(limit)))])
    return .ok
  }

  private func report(_ sentence: String, _ members: [JSONValue.Member]) {
    if line.flag("json") { Output.json(.object(members)) } else { Output.line(sentence) }
  }
}

extension Client {
  /// Calls a method of the local broadcast channel.
  @discardableResult
  func nearby(_ method: String, _ arguments: DBusValue...) async throws(Failure) -> [DBusValue] {
    try await call(BroadcastNames.path, BroadcastNames.interface, method, arguments, of: BroadcastNames.feature)
  }

  /// Fetches all stored messages with a number above `after`, oldest first.
  func nearbyMessages(after: UInt64) async throws(Failure) -> [NearbyMessage] {
    let values = try await nearby("ListMessages", .uint64(after), .uint32(0))
    return (values.first?.asArray ?? []).compactMap { NearbyMessage($0) }
  }
}
