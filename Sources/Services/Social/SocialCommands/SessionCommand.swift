import ASN
import CommandLine
import Common
import DBus
import Loop
import Terminal
import Tool

/// Commands of `earshot social` that log in to a server through the client of `earshot-sociald`.
@LoopActor
struct SessionCommand {
  private nonisolated static let interface = "org.earshot.SocialSession1"
  private static let loginTime = Duration.seconds(30)

  private let client: Client
  private let line: ParsedCommand

  init(_ client: Client, _ line: ParsedCommand) { (self.client, self.line) = (client, line) }

  /// The URL of a server, and the service's key and nonce: from the options, or those of this machine's server.
  func server() async throws(Failure) -> (url: String, service: String) {
    var url = line.value("url") ?? ""
    var service = line.value("service") ?? ""
    if url.isEmpty {
      let found = try await client.property(SocialCommand.path, SocialCommand.interface, "Listeners")
      let listeners = found.asStrings ?? []
      guard let first = listeners.first(where: { !$0.hasPrefix("systemd:") }) else {
        throw Failure(.usage, "The server of this machine has no address in Listen=. Name another one with --url.")
      }
      url = first
    }
    if service.isEmpty {
      let key = try await client.property(SocialCommand.path, SocialCommand.interface, "ServiceKey").asString ?? ""
      let nonce = try await client.property(SocialCommand.path, SocialCommand.interface, "ServiceNonce").asString ?? ""
      service = "\(key):\(nonce)"
    }
    return (url, service)
  }

  /// Logs in, and returns the object path of the session.
  private func connect() async throws(Failure) -> ObjectPath {
    let (url, service) = try await server()
    let values = try await client.call(
      SocialCommand.path, SocialCommand.interface, "Connect",
      [.string(url), .string(service), .string(line.argument("KEYS") ?? "")], timeout: Self.loginTime)
    guard let path = values.first?.asObjectPath else {
      throw Failure(
        .failed,
        "The service's answer contains no session.")
    }
    return path
  }

  /// Executes one command of the protocol, and quits.
  func exec() async throws(Failure) -> ExitCode {
    let input: FileDescriptor
    if let file = line.value("input") {
      input = try InputFile(file, name: "input").descriptor
    } else {
      do throws(DBusError) {
        input = try FileDescriptor.sealed([], name: "input")
      } catch {
        throw Failure(.failed, error.message)
      }
    }
    let path = try await connect()
    let values = try await client.call(
      path, Self.interface, "Exec", [.strings(line.arguments("WORD")), .descriptor(input)])
    let output = try SocialCommand.content(Array(values.dropFirst()))
    _ = try await client.call(path, Self.interface, "Quit")
    guard let result = values.first?.asByte, result == 0 else {
      let sentence = PrintableText.clean(String(decoding: output, as: UTF8.self), limit: 4096)
      throw Failure(.failed, "\(sentence) (result \(values.first?.asByte ?? 0))")
    }
    Output.write(output)
    return .ok
  }

  /// Writes a line for each blob that arrives, until interrupted or the session ends.
  func watch() async throws(Failure) -> ExitCode {
    let arrivals = Arrivals()
    let watch = client.onSignal { message in
      if message.member == "BlobArrived", let sum = message.arguments.first?.asString { arrivals.put(sum) }
      // The object of a session that ended is removed.
      if message.member == "InterfacesRemoved", let path = message.arguments.first?.asObjectPath {
        arrivals.ended(path.string)
      }
    }
    defer { watch.cancel() }
    // Without this call the server does not signal that the object of the session is removed.
    _ = try await client.call(SocialCommand.path, SocialCommand.interface, "Watch")
    let path = try await connect()
    Output.complain("Connected. Ctrl-C ends the session.")
    while let sum = await arrivals.next(session: path.string) {
      let bytes: [UInt8]
      do throws(Failure) {
        bytes = try SocialCommand.content(try await client.call(path, Self.interface, "Fetch", [.string(sum)]))
      } catch {
        // More blobs arrived than the service stores for a program. The end of the session is reported by `next`.
        guard error.code == .failed else { throw error }
        Output.complain("The blob \(sum) arrived and was not fetched in time; exec with cat shows its content.")
        continue
      }
      guard let blob = try? Blob(bytes) else { continue }
      Self.show(blob, line)
    }
    throw Failure(.failed, "The session has ended.")
  }

  static func show(_ blob: Blob, _ line: ParsedCommand) {
    let header = blob.header
    let name = header.name?.text ?? ""
    if line.flag("json") {
      return Output.json(
        .object([
          .init("sum", .string(blob.sum.hex)), .init("owner", .string(header.owner.hex)),
          .init("author", .string(header.author.hex)), .init("epoch", .unsigned(header.epoch)),
          .init("name", .string(name)), .init("size", .int(Int64(blob.content.count))),
          .init("text", .optional(String(validating: blob.content, as: UTF8.self))),
        ]), pretty: false)
    }
    let text = String(validating: blob.content.prefix(1024), as: UTF8.self) ?? "\(blob.content.count) bytes"
    let what =
      name.isEmpty
      ? PrintableText.clean(text, limit: 1024) : "\(PrintableText.clean(name)), \(blob.content.count) bytes"
    Output.line("\(header.author) → \(header.owner)  \(what)")
  }
}

/// The blobs about which a session was notified, in order.
@LoopActor
private final class Arrivals {
  private var sums = Fifo<String>()
  private var endedPaths: Set<String> = []
  private var waiting: CheckedContinuation<Void, Never>?

  func put(_ sum: String) {
    sums.append(sum)
    wake()
  }

  func ended(_ path: String) {
    endedPaths.insert(path)
    wake()
  }

  /// The next sum; nil when the session has ended.
  func next(session path: String) async -> String? {
    while true {
      if let sum = sums.popFirst() { return sum }
      if endedPaths.contains(path) { return nil }
      await withCheckedContinuation { waiting = $0 }
    }
  }

  private func wake() {
    waiting?.resume()
    waiting = nil
  }
}
