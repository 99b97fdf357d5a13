import Journal
import Loop

/// A call of a program to an object here. It is answered once, now or later; if it is dropped without an answer, the caller
/// gets an error.
@LoopActor
public final class MethodCall {
  public let path: ObjectPath
  public let interface: String
  public let member: String
  /// The caller's unique name.
  public let sender: String
  /// Of the types that the method takes.
  public let arguments: [DBusValue]
  /// The audience that the caller belongs to.
  let audience: Audience

  private let out: [Argument]
  private let answer: Answer
  private let guardian: Registration
  private let files: FileReader?
  /// Whose files it passes.
  let owner: FileReader.Owner

  /// - Parameter user: whose program calls; nil where that is not known.
  init(
    _ message: Message, at path: ObjectPath, interface: String, method: Method, audience: Audience, answer: Answer,
    files: FileReader? = nil, user: UInt32? = nil
  ) {
    self.files = files
    owner = user.map(FileReader.Owner.user) ?? .program(message.sender ?? "")
    self.path = path
    self.interface = interface
    member = method.name
    sender = message.sender ?? ""
    arguments = message.arguments
    out = method.out
    self.audience = audience
    self.answer = answer
    let label = "\(interface).\(method.name)"
    guardian = Registration {
      guard !answer.isGiven else { return }
      Log.shared.error("A call of \(label) was dropped without an answer")
      _ = answer.give(.failure(.failed("\(label) was given up without an answer.")))
    }
  }

  /// Whether the call was answered.
  public var isAnswered: Bool { answer.isGiven }

  /// Answers with `values`, which are of the types that the method returns.
  public func reply(_ values: DBusValue...) {
    reply(values)
  }

  /// Answers with `values`, which are of the types that the method returns.
  public func reply(_ values: [DBusValue]) {
    guard values.signature == out.signature else {
      Log.shared.error("\(interface).\(member) should return \(out.inWords) but returned \(values.signature)")
      return finish(.failure(.failed("\(interface).\(member) has a result of the wrong type.")))
    }
    finish(.success(values))
  }

  /// Answers with `values`, for what must not be lost on the way: `taken` is called when the bus has put the whole answer
  /// into the caller's connection. It is never called where the caller wants no answer, or where the caller or the
  /// connection to the bus is gone or goes before that.
  ///
  /// - Parameter values: of the types that the method returns.
  /// - Throws: why they cannot be sent, `LimitExceeded` for more than a message holds. The call still has to be answered.
  public func handOver(_ values: [DBusValue], taken: @escaping @LoopActor () -> Void) throws(DBusError) {
    guard values.signature == out.signature, !answer.isGiven else { return reply(values) }
    try answer.handOver(values, taken: taken)
  }

  /// Answers with an error.
  public func fail(_ error: DBusError) {
    finish(.failure(error))
  }

  /// Reads a file that the caller passed to its end, away from the loop and within the limits of the connection: so many
  /// files at one time, fewer of one user's, so long for each.
  ///
  /// - Parameters:
  ///   - limit: the most bytes that the file may have.
  ///   - then: called once, later: with the bytes, or with `InvalidArgs` for anything but a regular file or a sealed memory
  ///     file, `LimitExceeded` for a file over the limit, `Busy` while too many are being read, `Timeout` for one that
  ///     takes too long.
  public func read(
    _ file: FileDescriptor, limit: Int, then: @escaping @LoopActor (Result<[UInt8], DBusError>) -> Void
  ) {
    guard let files else { return EventLoop.shared.soon { then(.failure(.disconnected("There is no connection."))) } }
    files.read(file, of: owner, limit: limit, then: then)
  }

  private func finish(_ result: Result<[DBusValue], DBusError>) {
    if !answer.give(result) { Log.shared.error("\(interface).\(member) was answered twice; the second is ignored") }
  }
}
