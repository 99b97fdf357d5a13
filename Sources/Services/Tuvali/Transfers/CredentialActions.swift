import Loop

/// Actions of local programs on a transfer, carried out by the service that owns it.
@LoopActor
public struct CredentialActions {
  public typealias Then = @LoopActor () -> Void

  /// Records the verdict and notifies the wallet. Calls `Then` when the verdict is on disk. Returns false if there is
  /// no credential to judge.
  public var decide: @LoopActor (Transfer, Bool, @escaping Then) -> Bool
  /// Records that a program has fetched the credential.
  public var taken: @LoopActor (Transfer) -> Void
  /// Ends the link. Returns false if there is none.
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
