/// The error of this type that `body` throws; nil if it throws none, or one of another type. (`#expect(throws:)` of
/// Swift 6.0 does not return the error.)
public func caught<Failure: Error, Value>(_: Failure.Type, _ body: () throws -> Value) -> Failure? {
  do {
    _ = try body()
    return nil
  } catch {
    return error as? Failure
  }
}

/// The error of this type that an asynchronous `body` throws; nil if it throws none, or one of another type.
public func caught<Failure: Error>(
  _: Failure.Type, isolation: isolated (any Actor)? = #isolation, _ body: () async throws -> Void
) async -> Failure? {
  do {
    try await body()
    return nil
  } catch {
    return error as? Failure
  }
}
