import Loop

/// What a local program may do with a transfer; each is carried out by the service that runs it.
@LoopActor
public struct CredentialActions {
  public typealias Then = @LoopActor () -> Void

  /// Notes the verdict and tells the wallet, and calls `Then` when the disk knows it; false where there is nothing to
  /// judge.
  public var decide: @LoopActor (Transfer, Bool, @escaping Then) -> Bool
  /// Notes that a client was given the credential.
  public var taken: @LoopActor (Transfer) -> Void
  /// Ends the link; false where there is none.
  public var disconnect: @LoopActor (Transfer) -> Bool

  public init(
    decide: @escaping @LoopActor (Transfer, Bool, @escaping Then) -> Bool,
    taken: @escaping @LoopActor (Transfer) -> Void, disconnect: @escaping @LoopActor (Transfer) -> Bool
  ) {
    self.decide = decide
    self.taken = taken
    self.disconnect = disconnect
  }
}
