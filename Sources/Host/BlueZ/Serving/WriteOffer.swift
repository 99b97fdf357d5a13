import Common
import Loop
import Radio

/// Whether bluetoothd is offered sockets for the writes of its clients (`AcquireWrite`), of one characteristic.
///
/// While bluetoothd waits for a client's socket, what other clients write for the first time goes into that socket, too, as the first
/// one's (`acquire_write` of `src/gatt-database.c`, 5.82: one list for all). Clients that come together, as after a restart of this
/// program, would be taken for each other. So a client's first write comes by `WriteValue`, which names it: there is no offer while
/// a client is connected that has not written yet, for half a minute at most.
///
/// What a client itself writes meanwhile is spoiled, too. So there is no offer either while a client without a socket is connected
/// of which the service does not say that it streams: such a client writes its first values one at a time, and any other one, a
/// phone, may begin with a burst.
@LoopActor
final class WriteOffer {
  /// A peer that has not written in so long is no client of the characteristic: to find out what there is can take a slow one ten seconds.
  static let patience = Duration.seconds(30)

  private(set) var isMade = false
  /// Those that have come and not written yet.
  private var newcomers: [LinkID: Registration] = [:]
  /// While peers are connected that have no link here, one of which may be a client.
  private var unlinkedPeers: Registration?
  /// Those that write by `WriteValue`.
  private var callers: Set<LinkID> = []
  /// Those that the service says will stream.
  private var streamers: Set<LinkID> = []
  private let scheduler: any Scheduler
  private let tell: @LoopActor (Bool) -> Void

  /// - Parameter tell: called when the offer is made or withdrawn.
  init(scheduler: any Scheduler, tell: @escaping @LoopActor (Bool) -> Void) {
    self.scheduler = scheduler
    self.tell = tell
  }

  func opened(_ link: LinkID) {
    newcomers[link] = scheduler.schedule(after: Self.patience) { [weak self] in self?.settled(link) }
    decide()
  }

  /// A peer is connected that has no link here before it does something: it was there before this program, or it is paired.
  func expectUnlinkedPeers() {
    unlinkedPeers = scheduler.schedule(after: Self.patience) { [weak self] in
      self?.unlinkedPeers = nil
      self?.decide()
    }
    decide()
  }

  /// A client has written by `WriteValue`.
  func wrote(_ link: LinkID) {
    newcomers[link] = nil
    callers.insert(link)
    decide()
  }

  /// The service says that a client will stream.
  func expectStream(from link: LinkID) {
    streamers.insert(link)
    decide()
  }

  /// A client has a socket, or has had its time.
  func settled(_ link: LinkID) {
    newcomers[link] = nil
    callers.remove(link)
    decide()
  }

  /// A client is gone.
  func closed(_ link: LinkID) {
    streamers.remove(link)
    settled(link)
  }

  /// bluetoothd has forgotten it.
  func reset() {
    (isMade, callers) = (false, [])
  }

  private func decide() {
    let isDue =
      newcomers.isEmpty && unlinkedPeers == nil && callers.isSubset(of: streamers) && (isMade || !callers.isEmpty)
    guard isDue != isMade else { return }
    isMade = isDue
    tell(isDue)
  }
}
