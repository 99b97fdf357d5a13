import Loop

/// A method that other programs can call.
public struct Method: Sendable {
  public typealias Handler = @LoopActor (MethodCall) -> Void

  public let name: String
  public let `in`: [Argument]
  public let out: [Argument]
  public let documentation: String
  /// The names of the errors that the method may return.
  public let errors: [String]
  let handler: Handler
  /// Whether the method has no effect but its answer: a call that expects no answer is then not executed.
  var onlyAnswers = false

  /// - Parameter handler: called on the loop for each call, in order of arrival; it answers immediately or later.
  public init(
    _ name: String, in: [Argument] = [], out: [Argument] = [], documentation: String = "",
    errors: [DBusError.Name] = [], handler: @escaping Handler
  ) {
    precondition(Validity.isMember(name), "not a method's name: \(name)")
    self.name = name
    self.in = `in`
    self.out = out
    self.documentation = documentation
    self.errors = errors.map(\.rawValue)
    self.handler = handler
  }

  /// - Parameter body: answers immediately, with the returned values or the thrown error.
  public init(
    _ name: String, in: [Argument] = [], out: [Argument] = [], documentation: String = "",
    errors: [DBusError.Name] = [],
    returning body: @escaping @LoopActor (MethodCall) throws(DBusError) -> [DBusValue]
  ) {
    self.init(
      name, in: `in`, out: out, documentation: documentation, errors: errors,
      handler: { call in
        do throws(DBusError) {
          call.reply(try body(call))
        } catch {
          call.fail(error)
        }
      })
  }

  /// A copy that is marked as having no effect but its answer.
  func answeringOnly() -> Method {
    var method = self
    method.onlyAnswers = true
    return method
  }
}
