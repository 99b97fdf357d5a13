import ASN
import CommandLine
import Common
import Crypto
import DBus
import Glibc
import Loop
import Social
import Terminal
import Tool

/// Commands of `earshot social` that the tool itself executes with a server at a URL, as a user whose keys are in a
/// file.
@LoopActor
struct RemoteCommand {
  private let target: RemoteTarget
  private let keys: UserKeys
  private let line: ParsedCommand

  /// Reads the options.
  ///
  /// - Parameters:
  ///   - line: the command line, with the option `url`.
  ///   - keys: the path of the key file; nil means the value of the option `keys`.
  init(_ line: ParsedCommand, keys path: String? = nil) throws(Failure) {
    guard let url = line.value("url"), let service = line.value("service") else {
      throw Failure(.usage, "A server at a URL needs --url and --service KEY:NONCE, which its operator knows.")
    }
    guard let path = path ?? line.value("keys") else {
      throw Failure(.usage, "A server at a URL needs --keys, the file of the user's keys.")
    }
    target = try RemoteTarget(url: url, service: service, trustFile: line.value("trust"))
    keys = try KeyFile.read(path)
    self.line = line
  }

  /// Logs in, executes a command, and quits.
  private func exec(_ words: [String], input: [UInt8]? = nil) async throws(Failure) -> [UInt8] {
    let session = try await RemoteSession(target, keys)
    let data: [UInt8]
    do throws(Failure) {
      data = try await session.exec(words, input: input)
    } catch {
      await session.quit()
      throw error
    }
    await session.quit()
    return data
  }

  private static func content(_ path: String) throws(Failure) -> [UInt8] {
    let file = try InputFile(path, name: "input")
    do throws(DBusError) {
      return try file.descriptor.contents()
    } catch {
      throw Failure(.failed, error.message)
    }
  }

  private func show(_ data: [UInt8]) {
    let names = data.split(separator: UInt8(ascii: "\n")).map { String(decoding: $0, as: UTF8.self) }
    if line.flag("json") { return Output.json(.array(names.map { .string($0) })) }
    Output.write(names.map { SocialCommand.clean($0) + "\n" }.joined())
  }

  private func showSum(_ data: [UInt8]) -> ExitCode {
    let text = String(decoding: data, as: UTF8.self)
    let sum = SocialCommand.clean(text.hasSuffix("\n") ? String(text.dropLast()) : text)
    if line.flag("json") { Output.json(.object([.init("sum", .string(sum))])) } else { Output.line(sum) }
    return .ok
  }

  // MARK: Commands

  func users() async throws(Failure) -> ExitCode {
    let words = target.address.dialect == .seed ? ["ls", "\(target.serviceKey.hex)/asn/user"] : ["users"]
    let lines = try await exec(words).split(separator: UInt8(ascii: "\n"))
    // The user's own name is listed without the key.
    let own = Array(keys.user.hex.utf8.prefix(16))
    let users = lines.map { $0.elementsEqual("asn/user".utf8) ? own : Array($0.prefix { $0 != UInt8(ascii: "/") }) }
    show(Array(users.joined(separator: [UInt8(ascii: "\n")])))
    return .ok
  }

  func list() async throws(Failure) -> ExitCode {
    let data = try await exec(["ls"] + [line.argument("REFERENCE")].compactMap { $0 })
    let after = Array((line.value("after") ?? "").utf8)
    let names = data.split(separator: UInt8(ascii: "\n")).filter {
      after.isEmpty || after.lexicographicallyPrecedes($0)
    }
    show(Array(names.prefix(line.integer("limit") ?? Int.max).joined(separator: [UInt8(ascii: "\n")])))
    return .ok
  }

  func cat() async throws(Failure) -> ExitCode {
    Output.write(try await exec(["cat", line.argument("REFERENCE") ?? ""]))
    return .ok
  }

  func put() async throws(Failure) -> ExitCode {
    let mark = target.address.dialect == .seed ? "" : "~"
    let owner = line.value("owner").map { "\(mark)\($0)/" } ?? ""
    let content = try Self.content(line.argument("FILE") ?? "-")
    return showSum(try await exec(["blob", owner + (line.argument("NAME") ?? "")], input: content))
  }

  func say() async throws(Failure) -> ExitCode {
    let text = try StandardInput.text(or: line.arguments("TEXT"))
    let mark = target.address.dialect == .seed ? "" : "~"
    return showSum(try await exec(["blob", mark + (line.argument("USER") ?? "")], input: Array(text.utf8)))
  }

  func remove() async throws(Failure) -> ExitCode { showSum(try await exec(["rm", line.argument("REFERENCE") ?? ""])) }

  func collect() async throws(Failure) -> ExitCode {
    var words = ["gc", "-v"] + (line.flag("dry-run") ? ["-n"] : [])
    if let age = line.seconds("older-than") {
      let milliseconds = SystemWallClock().milliseconds - Int64(age / .milliseconds(1))
      words.append("@\(max(1, milliseconds) * 1_000_000)")
    }
    show(try await exec(words))
    return .ok
  }

  func newKeys() async throws(Failure) -> ExitCode {
    let place = try line.value("output").map { (path) throws(Failure) in try FilePlace(path) }
    let data = try await exec(["newuser", line.argument("KIND") ?? "actual"])
    return try SocialCommand.write(data, to: place, line)
  }

  /// Executes the words of the command line as a command.
  func exec() async throws(Failure) -> ExitCode {
    let input = try line.value("input").map { (path) throws(Failure) in try Self.content(path) }
    Output.write(try await exec(line.arguments("WORD"), input: input))
    return .ok
  }

  /// Writes a line for each blob that arrives, until interrupted or the session ends.
  func watch() async throws(Failure) -> ExitCode {
    let session = try await RemoteSession(target, keys)
    Output.complain("Connected. Ctrl-C ends the session.")
    while let blob = await session.next() { SessionCommand.show(blob, line) }
    throw Failure(.failed, session.end)
  }
}

/// `earshot social join`: the first login of a user.
@LoopActor
struct JoinCommand {
  private let client: Client
  private let line: ParsedCommand

  init(_ client: Client, _ line: ParsedCommand) { (self.client, self.line) = (client, line) }

  /// Makes keys, unless the file already has some, and logs in with them for the first time.
  func run() async throws(Failure) -> ExitCode {
    let path = line.argument("FILE") ?? ""
    var (url, service) = (line.value("url") ?? "", line.value("service") ?? "")
    if url.isEmpty || service.isEmpty {
      try await client.connect()
      (url, service) = try await SessionCommand(client, line).server()
    }
    let target = try RemoteTarget(url: url, service: service, trustFile: line.value("trust"))
    let keys: UserKeys
    if access(path, F_OK) == 0 {
      keys = try KeyFile.read(path)
    } else {
      let place = try FilePlace(path)
      guard case .one = place else { throw Failure(.usage, "\(path) is a folder. Name a file for the keys.") }
      var random = SystemRandom()
      let made = UserKeys.make(random: &random)
      // The server knows the user after the login, so that the keys are on the disk before.
      _ = try place.keep(made.text, as: "keys.yaml")
      keys = made.keys
    }
    let session = try await RemoteSession(target, keys, isNewUser: true)
    await session.quit()
    let user = keys.user.hex
    if line.flag("json") {
      Output.json(.object([.init("user", .string(user)), .init("path", .string(path))]))
    } else {
      Output.line("You are the user \(user). The keys are in \(path).")
    }
    return .ok
  }
}
