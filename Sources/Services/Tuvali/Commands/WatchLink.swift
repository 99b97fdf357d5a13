import DBus
import Loop
import Tool
import Verifier

/// Connection of `earshot verifier watch` to the service. Delivers the list of objects at each start of the service,
/// then its signals, in order.
@LoopActor
final class WatchLink {
  private let client: Client
  private let onEvent: @LoopActor (WatchEvent) -> Void
  private var registrations: [Registration] = []
  private var retry: Registration?
  private var owner: String?
  /// Whether the objects of the running service were read. The list includes all changes that were signalled before.
  private var hasList = false
  /// Whether the first list was read.
  private var hasBegun = false
  /// Number of the current read. Replies to earlier reads are ignored.
  private var reading = 0

  /// Delay before a failed read of the list is repeated.
  private static let pause = Duration.seconds(2)

  /// - Parameter onEvent: called for each event.
  init(_ client: Client, onEvent: @escaping @LoopActor (WatchEvent) -> Void) {
    self.client = client
    self.onEvent = onEvent
  }

  /// Connects, reads the first list, and calls `onEvent` with it.
  ///
  /// - Throws: `Failure` if there is no bus, no service or no permission.
  func begin() async throws(Failure) {
    try await client.connect()
    registrations = [
      client.onSignal { [weak self] in self?.signal($0) },
      client.bus.watchName(client.service) { [weak self] in self?.ownerChanged($0) },
    ]
    let result = await withCheckedContinuation { continuation in
      read { continuation.resume(returning: $0) }
    }
    try result.get()
    hasBegun = true
  }

  func end() {
    registrations = []
    retry = nil
    reading += 1
  }

  private func ownerChanged(_ owner: String?) {
    let before = self.owner
    self.owner = owner
    // `begin` reads the first list, even if that starts the service.
    guard hasBegun, owner != before else { return }
    if before != nil, hasList {
      hasList = false
      onEvent(.went)
    }
    if owner != nil { readAgain() }
  }

  // MARK: The list

  private func readAgain() {
    retry = nil
    hasList = false
    read { [weak self] result in
      guard let self, case .failure = result, owner != nil else { return }
      retry = EventLoop.shared.schedule(after: Self.pause) { [weak self] in self?.readAgain() }
    }
  }

  /// - Parameter then: called unless another read has begun meanwhile.
  private func read(then: @escaping @LoopActor (Result<Void, Failure>) -> Void) {
    reading += 1
    let reading = reading
    client.readObjects { [weak self] result in
      guard let self, reading == self.reading else { return }
      switch result {
      case .success(let objects):
        hasList = true
        onEvent(.came(objects))
        then(.success(()))
      case .failure(let failure): then(.failure(failure))
      }
    }
  }

  // MARK: Signals

  private func signal(_ message: Message) {
    guard hasList, let path = message.path?.string else { return }
    let arguments = message.arguments
    switch message.member {
    case "InterfacesAdded":
      guard let added = arguments.first?.asObjectPath,
        let properties = arguments.last?[TransferView.interface]?.asDictionary
      else { return }
      onEvent(.added(path: added.string, properties))
    case "InterfacesRemoved":
      if let removed = arguments.first?.asObjectPath { onEvent(.removed(path: removed.string)) }
    case "WalletRefused" where message.interface == VerifierAdaptor.interfaceName && arguments.count == 2:
      onEvent(.refused(code: arguments[0].text, sentence: arguments[1].text))
    case "VerdictReceived" where message.interface == VerifierAdaptor.interfaceName:
      if let checked = arguments.first?.asObjectPath { onEvent(.verdictReceived(path: checked.string)) }
    default:
      guard let (interface, values) = message.changedProperties else { return }
      onEvent(.changed(path: path, interface: interface, values))
    }
  }
}
