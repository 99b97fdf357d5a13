import CommandLine
import Common
import DBus
import Glibc
import Loop
import Terminal
import Tool

/// Commands of `earshot social` that consist of one or a few requests to the daemon.
@LoopActor
struct SocialCommand {
  nonisolated static let path: ObjectPath = "/org/earshot/social"
  nonisolated static let interface = "org.earshot.Social1"
  /// Maximum time for a backup, an export, an import or a collection.
  private static let patience = Duration.seconds(3600)

  private let client: Client
  private let line: ParsedCommand

  init(_ client: Client, _ line: ParsedCommand) { (self.client, self.line) = (client, line) }

  private func call(
    _ method: String, _ arguments: DBusValue..., timeout: Duration? = nil
  ) async throws(Failure) -> [DBusValue] {
    try await client.call(Self.path, Self.interface, method, arguments, timeout: timeout)
  }

  private func report(_ sentence: String, _ key: String, _ value: JSONValue) {
    if line.flag("json") { Output.json(.object([.init(key, value)])) } else { Output.line(sentence) }
  }

  /// The server's text without control characters.
  static func clean(_ text: String) -> String { PrintableText.clean(text, limit: 4096) }

  // MARK: Looking

  func status() async throws(Failure) -> ExitCode {
    let properties = try await client.properties(Self.path, Self.interface)
    if line.flag("json") {
      Output.json(.sorted(properties.mapValues(\.json)))
    } else {
      Output.write(Self.text(properties))
    }
    return .ok
  }

  static func text(_ properties: [String: DBusValue]) -> String {
    func text(_ name: String) -> String { clean(properties[name]?.unwrapped.asString ?? "") }
    func number(_ name: String) -> Int { properties[name]?.unwrapped.asInteger ?? 0 }
    let listeners = properties["Listeners"]?.unwrapped.asStrings ?? []
    let loggedIn = properties["LoggedIn"]?.unwrapped.asStrings ?? []
    var lines = [
      "address   \(listeners.isEmpty ? "none: Listen= in social.conf, or earshot-sociald.socket" : listeners[0])"
    ]
    lines += listeners.dropFirst().map { "          \($0)" }
    lines += [
      "key       \(text("ServiceKey"))", "nonce     \(text("ServiceNonce"))",
      "store     \(number("Blobs")) blobs, \(humanBytes(number("Bytes"))), \(number("Users")) users",
      "sessions  \(number("Sessions")), \(loggedIn.count) logged in",
    ]
    if !text("Trouble").isEmpty { lines.append("trouble   \(text("Trouble"))") }
    let counters = (properties["Counters"]?.unwrapped.asDictionary ?? [:]).compactMap { name, value in
      value.asInteger.flatMap { $0 > 0 ? (name, $0) : nil }
    }.sorted { $0.0 < $1.0 }
    lines += counters.map { "          \($0.1) \(meanings[$0.0] ?? $0.0)" }
    return lines.map { $0 + "\n" }.joined()
  }

  /// Sentences that explain each counter of the social server.
  nonisolated static let meanings = [
    "Accepted": "connections accepted",
    "Refused": "connections refused: too many, after failed logins, or not upgraded to WebSocket",
    "Logins": "logins",
    "FailedLogins": "logins refused",
    "Malformed": "connections closed because of malformed segments, PDUs or keys",
    "DroppedBlobs": "blobs dropped because they were not permitted or malformed",
    "Pushes": "blobs pushed to sessions",
    "SlowClients": "sessions closed because their output waited",
    "Redirected": "sessions redirected",
    "Delayed": "requests delayed because their user made too many blobs",
  ]

  func users() async throws(Failure) -> ExitCode {
    let key = try await client.property(Self.path, Self.interface, "ServiceKey").asString ?? ""
    let names = try await names("\(key)/asn/user", after: "", limit: 0)
    show(names.compactMap { $0.split(separator: "/").first.map(String.init) })
    return .ok
  }

  func list() async throws(Failure) -> ExitCode {
    show(
      try await names(
        line.argument("REFERENCE") ?? "", after: line.value("after") ?? "", limit: line.integer("limit") ?? 0))
    return .ok
  }

  /// Number of names that one call of `List` requests.
  private static let portion = 4096

  /// Reads a list in portions.
  ///
  /// - Parameter limit: maximum names; 0: all.
  private func names(_ reference: String, after: String, limit: Int) async throws(Failure) -> [String] {
    var names: [String] = []
    var last = after
    while true {
      let count = limit == 0 ? Self.portion : min(Self.portion, limit - names.count)
      let values = try await call("List", .string(reference), .string(last), .uint32(UInt32(clamping: count)))
      let page = values.first?.asStrings ?? []
      names += page
      guard page.count == count, names.count != limit, let next = page.last else { return names }
      last = next
    }
  }

  private func show(_ names: [String]) {
    if line.flag("json") { return Output.json(.array(names.map { .string($0) })) }
    Output.write(names.map { Self.clean($0) + "\n" }.joined())
  }

  func cat() async throws(Failure) -> ExitCode {
    Output.write(try Self.content(try await call("Get", .string(line.argument("REFERENCE") ?? ""))))
    return .ok
  }

  static func content(_ values: [DBusValue]) throws(Failure) -> [UInt8] {
    guard let file = values.first?.asDescriptor else { throw Failure(.failed, "The server's answer has no file.") }
    do throws(DBusError) {
      return try file.contents()
    } catch {
      throw Failure(.failed, error.message)
    }
  }

  // MARK: Writing

  func newKeys() async throws(Failure) -> ExitCode {
    let place = try line.value("output").map { (path) throws(Failure) in try FilePlace(path) }
    let keys = try Self.content(try await call("NewUser", .string(line.argument("KIND") ?? "actual")))
    return try Self.write(keys, to: place, line)
  }

  /// Writes the keys of a user to a file, or to standard output if no file is given.
  static func write(_ keys: [UInt8], to place: FilePlace?, _ line: ParsedCommand) throws(Failure) -> ExitCode {
    guard let place else {
      Output.write(keys)
      return .ok
    }
    let path = try place.keep(keys, as: "keys.yaml")
    if line.flag("json") {
      Output.json(.object([.init("path", .string(path))]))
    } else {
      Output.line("The keys are in \(path). They give full access as this user.")
    }
    return .ok
  }

  func importKeys() async throws(Failure) -> ExitCode {
    let file = try InputFile(line.argument("FILE") ?? "-", name: "keys")
    let name = line.argument("NAME") ?? ""
    let user = try await call("ImportKeys", .string(name), .descriptor(file.descriptor)).first?.asString ?? ""
    report("The keys of \(user) are stored as \(name).", "user", .string(user))
    return .ok
  }

  func put() async throws(Failure) -> ExitCode {
    let file = try InputFile(line.argument("FILE") ?? "-", name: "blob")
    let values = try await call(
      "Put", .string(line.value("owner") ?? ""), .string(line.argument("NAME") ?? ""), .descriptor(file.descriptor))
    return sum(values)
  }

  func say() async throws(Failure) -> ExitCode {
    let text = try StandardInput.text(or: line.arguments("TEXT"))
    return sum(try await call("Say", .string(line.argument("USER") ?? ""), .string(text)))
  }

  func remove() async throws(Failure) -> ExitCode {
    sum(try await call("Remove", .string(line.argument("REFERENCE") ?? "")))
  }

  private func sum(_ values: [DBusValue]) -> ExitCode {
    let sum = values.first?.asString ?? ""
    report(sum, "sum", .string(sum))
    return .ok
  }

  // MARK: The store

  func collect() async throws(Failure) -> ExitCode {
    var before: UInt64 = 0
    if let age = line.seconds("older-than") {
      let milliseconds = SystemWallClock().milliseconds - Int64(age / .milliseconds(1))
      before = UInt64(max(1, milliseconds))
    }
    let values = try await call(
      "Collect", .uint64(before), .bool(line.flag("dry-run")), timeout: Self.patience)
    show(values.first?.asStrings ?? [])
    return .ok
  }

  func backUp() async throws(Failure) -> ExitCode {
    let path = line.argument("FILE") ?? ""
    let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw FileOutput.failure(path, "written", .notWritten) }
    do throws(Failure) {
      _ = try await call("Backup", .descriptor(FileDescriptor(owning: descriptor)), timeout: Self.patience)
    } catch {
      unlink(path)
      throw error
    }
    report("The backup is in \(path).", "path", .string(path))
    return .ok
  }

  /// Exports or imports a directory, which the server accesses itself.
  func transfer(_ method: String) async throws(Failure) -> ExitCode {
    let path = line.argument("DIRECTORY") ?? ""
    guard path.hasPrefix("/") else {
      throw Failure(.usage, "DIRECTORY must be an absolute path, because the server opens it.")
    }
    let sentence = try await call(method, .string(path), timeout: Self.patience).first?.asString ?? ""
    report(Self.clean(sentence), "report", .string(sentence))
    return .ok
  }
}
