import Journal
import Loop

/// A program's call of an object of this process. It is answered once, immediately or later; if it is released without
/// an answer, the caller receives an error.
@LoopActor
public final class MethodCall {
  public let path: ObjectPath
  public let interface: String
  public let member: String
  /// The caller's unique name.
  public let sender: String
  /// The arguments, of the types that the method declares.
  public let arguments: [DBusValue]
  /// The caller's audience.
  let audience: Audience

  /// Whether the caller belongs to the group. A method for viewers leaves out what is for the group alone.
  public var isOfGroup: Bool { audience == .group }

  private let out: [Argument]
  private let answer: Answer
  private let guardian: Registration
  private let files: FileReader?
  /// The owner of the files that the call passes.
  let owner: FileReader.Owner

  /// - Parameter user: the caller's user; nil if unknown.
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
      _ = answer.give(.failure(.failed("\(label) was dropped without an answer.")))
    }
  }

  /// Whether the call was answered.
  public var isAnswered: Bool { answer.isGiven }

  /// Answers with `values`, of the types that the method returns.
  public func reply(_ values: DBusValue...) {
    reply(values)
  }

  /// Answers with `values`, of the types that the method returns.
  public func reply(_ values: [DBusValue]) {
    guard values.signature == out.signature else {
      Log.shared.error("\(interface).\(member) should return \(out.inWords) but returned \(values.signature)")
      return finish(.failure(.failed("\(interface).\(member) has a result of the wrong type.")))
    }
    finish(.success(values))
  }

  /// Answers with `values` that must not be lost: `taken` is called when the bus has delivered the whole answer to the
  /// caller's connection. It is never called if the caller expects no answer, or if the caller's connection or this one
  /// ends before that.
  ///
  /// - Parameter values: of the types that the method returns.
  /// - Throws: the reason why they cannot be sent, `LimitExceeded` if they exceed a message. The call must still be
  ///   answered.
  public func handOver(_ values: [DBusValue], taken: @escaping @LoopActor () -> Void) throws(DBusError) {
    guard values.signature == out.signature, !answer.isGiven else { return reply(values) }
    try answer.handOver(values, taken: taken)
  }

  /// Answers with an error.
  public func fail(_ error: DBusError) {
    finish(.failure(error))
  }

  /// Reads a file that the caller passed, away from the loop. The limits of the connection apply: the number of files
  /// in total and for one user, and the time for each.
  ///
  /// - Parameters:
  ///   - limit: maximum bytes of the file.
  ///   - then: called once, later: with the bytes, or with an error. The error is `InvalidArgs` for anything but a
  ///     regular file or a sealed memory file. It is `LimitExceeded` for a file over the limit, `Busy` while too many
  ///     are being read, and `Timeout`.
  public func read(
    _ file: FileDescriptor, limit: Int, then: @escaping @LoopActor (Result<[UInt8], DBusError>) -> Void
  ) {
    guard let files else {
      return EventLoop.shared.soon { then(.failure(.disconnected("The connection to the bus no longer exists."))) }
    }
    files.read(file, of: owner, limit: limit, then: then)
  }

  private func finish(_ result: Result<[DBusValue], DBusError>) {
    if !answer.give(result) { Log.shared.error("\(interface).\(member) was answered twice: the second is dropped") }
  }
}
