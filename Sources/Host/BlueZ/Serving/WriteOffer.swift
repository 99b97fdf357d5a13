import Common
import Loop
import Radio

/// Decides whether bluetoothd is offered sockets for its clients' writes (`AcquireWrite`) to one characteristic.
///
/// While bluetoothd waits for a client's socket, the first writes of other clients go into that socket, too, as if from the first client
/// (`acquire_write` of `src/gatt-database.c`, 5.82: one list for all). Clients that connect at the same time, for example after a restart
/// of this program, would be confused. A client's first write therefore arrives by `WriteValue`, which names it. While a connected client
/// has not written, there is no offer, for at most 30 s.
///
/// Further writes of the client itself during the wait are corrupted, too. There is no offer either while a client without a socket is
/// connected that the service does not expect to stream. A streaming client writes its first values one at a time; any other client, such
/// as a phone, may begin with a burst.
@LoopActor
final class WriteOffer {
  /// Time after which a peer without writes does not count as a client: discovery can take a slow peer ten seconds.
  static let patience = Duration.seconds(30)

  private(set) var isMade = false
  /// Connected clients that have not written yet.
  private var newcomers: [LinkID: Registration] = [:]
  /// Set while peers without a link here are connected, one of which may be a client.
  private var unlinkedPeers: Registration?
  /// Clients that write by `WriteValue`.
  private var callers: Set<LinkID> = []
  /// Clients that the service expects to stream.
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

  /// A peer is connected that has no link here until it is active: it connected before this program started, or is paired.
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

  /// The service expects a client to stream.
  func expectStream(from link: LinkID) {
    streamers.insert(link)
    decide()
  }

  /// A client has a socket, or its time has passed.
  func settled(_ link: LinkID) {
    newcomers[link] = nil
    callers.remove(link)
    decide()
  }

  /// A client's link has ended.
  func closed(_ link: LinkID) {
    streamers.remove(link)
    settled(link)
  }

  /// bluetoothd has dropped the characteristic.
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
