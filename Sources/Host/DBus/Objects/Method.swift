import Loop

/// A method that other programs can call.
public struct Method: Sendable {
  public typealias Handler = @LoopActor (MethodCall) -> Void

  public let name: String
  public let `in`: [Argument]
  public let out: [Argument]
  public let documentation: String
  /// The names of the errors that the method may answer.
  public let errors: [String]
  let handler: Handler
  /// Whether the method does nothing but answer: a call that wants no answer is then not carried out.
  var onlyAnswers = false

  /// - Parameter handler: called on the loop for each call, in the order in which they came; it answers then or later.
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

  /// - Parameter body: answers at once, with the values that it returns or the error that it throws.
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

  /// The method as one that does nothing but answer.
  func answeringOnly() -> Method {
    var method = self
    method.onlyAnswers = true
    return method
  }
}
