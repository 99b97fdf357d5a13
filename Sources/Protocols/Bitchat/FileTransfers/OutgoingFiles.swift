import BitchatWire
import Common

/// Files of this node that are under way. Up to `activeLimit` are sent at a time, fragment by fragment; the others
/// wait.
///
/// A link to a phone gets a fragment every 25 ms. Each link queues at most `window` packets, and the service reports
/// free capacity. An Earshot peer confirms fragments, because packets queued in the stacks and radios of both ends
/// cannot be overtaken and may overflow there.
struct OutgoingFiles: Sendable {
  /// Maximum files under way, including those that wait.
  static let limit = 8
  /// Maximum files that are sent at the same time.
  static let activeLimit = 2
  /// Time between fragments on a link to a phone, and of a private file over several hops. Facts: bitchat.md section 7.
  static let pause = Limits.fragmentPause
  /// Maximum queued packets of files per link.
  static let window = 16
  /// Maximum age of the timestamp of sent fragments. Nodes drop packets that deviate by two minutes; phones also apply
  /// this to the packet inside.
  static let freshTime = Duration.seconds(100)
  /// Maximum age of a file's packet at an Earshot peer: the time for which the peer reassembles it.
  static let longestTime = FragmentAssembler.Bounds().longestTime
  /// Time for the peer's acknowledgement after the last packet.
  static let answerTime = Duration.seconds(6)
  /// Maximum number of attempts to send one file.
  static let tries = 6
  /// Maximum repetitions of the same fragments, which replace lost ones. A peer whose receipt was lost drops them all
  /// as copies; it acknowledges again when the file arrives in a new packet.
  static let repetitions = 2
  /// Time in which a peer must state its capabilities in a new session.
  static let proofTime = Duration.seconds(10)
  /// Interval at which a waiting file checks whether it can be sent.
  static let lookTime = Duration.seconds(5)
  static let lifetime = Duration.seconds(24 * 3600)
  /// Maximum public files that can be withdrawn after they were sent.
  static let givenLimit = 64
  /// Time after a chat message in which another one is expected, so that files leave capacity for it.
  static let chatTime = Duration.seconds(30)

  private struct Pace: Sendable {
    /// Earliest time of the next unconfirmed packet.
    var next = Instant.zero
    /// Packets of files that wait in the link's queue.
    var waiting = 0
    var confirming = Confirming()

    /// Records a packet on the link.
    ///
    /// - Parameter isConfirmed: whether the peer confirms it.
    mutating func note(_ mark: UInt64?, isConfirmed: Bool, at now: Instant) {
      waiting += 1
      guard !isConfirmed else { return confirming.sent(mark, at: now) }
      next = max(next, now.advanced(by: .zero - Limits.fragmentLateness)).advanced(by: OutgoingFiles.pause)
    }
  }

  /// Files sorted by number, which is the order of arrival. Searches use indices: copying a file costs more than
  /// handling a packet.
  private(set) var files: [OutgoingFile] = []
  /// Latest sent public files, whose packets are still given to neighbours.
  private var given: [(number: UInt32, packets: FilePackets)] = []
  private var paces: [LinkID: Pace] = [:]
  /// Time of the last chat message that was sent or relayed.
  private var chattedAt: Instant?
  /// Whether sending is paused because another service needs the radio.
  private(set) var isQuiet = false

  var count: Int { files.count }
  subscript(number: UInt32) -> OutgoingFile? {
    get { place(of: number).map { files[$0] } }
    set {
      switch (place(of: number), newValue) {
      case (let place?, let file?): files[place] = file
      case (let place?, nil): files.remove(at: place)
      case (nil, let file?): files.insert(file, at: files.firstIndex { $0.number > number } ?? files.count)
      case (nil, nil): break
      }
    }
  }

  private func place(of number: UInt32) -> Int? { files.firstIndex { $0.number == number } }

  var numbers: [UInt32] { files.map(\.number) }
  /// Whether fewer files than the maximum are being sent, so that another one may begin.
  var hasPlace: Bool { files.count { $0.phase == .sending } < Self.activeLimit }

  /// Pauses all files during a radio inhibit, or resumes them.
  mutating func hold(_ isQuiet: Bool) {
    self.isQuiet = isQuiet
    guard isQuiet else { return }
    for place in files.indices where files[place].cut != nil { files[place].wasHeld = true }
  }

  // MARK: Sent files

  /// Records the packets of a public file that was sent, so that the file can be withdrawn later.
  mutating func give(_ number: UInt32, _ packets: FilePackets) {
    if given.count >= Self.givenLimit { given.removeFirst() }
    given.append((number, packets))
  }

  /// Removes and returns the packets of a sent public file; nil if unknown.
  mutating func takeGiven(_ number: UInt32) -> FilePackets? {
    given.firstIndex { $0.number == number }.map { given.remove(at: $0).packets }
  }

  // MARK: Links

  /// Updates the number of queued file packets of a link.
  mutating func hasRoom(_ link: LinkID, waiting: Int) { paces[link]?.waiting = waiting }

  /// Removes a link and what was to be sent over it.
  mutating func forget(_ link: LinkID) {
    paces[link] = nil
    for place in files.indices { files[place].legs[link] = nil }
  }

  /// Returns the time at which a file packet may be sent over a link; nil while the link's queue is full.
  ///
  /// - Parameter isConfirmed: whether the peer confirms packets of the file.
  private func moment(_ link: LinkID, isConfirmed: Bool) -> Instant? {
    guard let pace = paces[link] else { return .zero }
    guard pace.waiting < Self.window else { return nil }
    return isConfirmed ? pace.confirming.next : pace.next
  }

  /// Whether the peer of a fast link must be asked for a confirmation.
  func isConfirmationDue(on link: LinkID) -> Bool { paces[link]?.confirming.isDue ?? false }

  /// Records a ping that asks for a confirmation of all earlier packets.
  ///
  /// - Returns: the confirmation interval that the ping carries.
  mutating func ask(_ nonce: UInt64, on link: LinkID, at now: Instant) -> UInt8? {
    paces[link]?.confirming.ask(nonce, at: now)
    return (paces[link]?.confirming.interval).flatMap { UInt8(exactly: $0) }
  }

  /// Handles a confirmation.
  ///
  /// - Returns: whether it confirms packets of files.
  mutating func confirm(_ confirmation: FileConfirmation, on link: LinkID, at now: Instant) -> Bool {
    let isBesideChat = isBesideChat(at: now)
    paces[link]?.confirming.isBesideChat = isBesideChat
    return paces[link]?.confirming.confirm(confirmation, at: now) ?? false
  }

  /// Records that a chat message was sent, beside which files leave capacity for a while.
  mutating func chatted(at now: Instant) { chattedAt = now }

  /// Whether another chat message is likely while a file is sent.
  func isBesideChat(at now: Instant) -> Bool { chattedAt.map { $0.duration(to: now) < Self.chatTime } ?? false }

  /// Whether packets of a file wait for a link.
  func isWaiting(for link: LinkID) -> Bool {
    !isQuiet && files.contains { $0.phase == .sending && $0.legs[link] != nil }
  }

  /// Delays the next fragment after another packet on the link, because a phone needs the pause after it too.
  mutating func giveWay(on link: LinkID, at now: Instant) {
    paces[link, default: Pace()].next = max(paces[link]?.next ?? .zero, now.advanced(by: Self.pause))
  }

  /// Takes the next packet for a link. The file with the fewest packets left goes first, so that small files do not
  /// wait for large ones.
  ///
  /// - Returns: the file's number, the packet's index, and whether it is paced for phones.
  mutating func take(
    for link: LinkID, isFast: Bool, at now: Instant
  ) -> (number: UInt32, index: Int, isPaced: Bool)? {
    guard !isQuiet, let place = first(for: link, isFast: isFast, at: now), let index = files[place].legs[link] else {
      return nil
    }
    let isLast = index + 1 == files[place].cut?.count
    files[place].legs[link] = isLast ? nil : index + 1
    if isLast { files[place].isWhole = true }
    let mark = files[place].cut?.cutter.map { FragmentMark($0.id, index: index).rawValue }
    let isConfirmed = isFast && !files[place].isSlow
    paces[link, default: Pace()].note(mark, isConfirmed: isConfirmed, at: now)
    return (files[place].number, index, !isConfirmed)
  }

  /// One encoded packet or fragment of a file, as it is sent over a link.
  struct Piece {
    let bytes: [UInt8]
    /// The fragment; nil for a packet without fragments.
    let packet: Packet?
    let isPublic: Bool
  }

  /// Returns the packet with this index; nil if there is none.
  func piece(_ index: Int, of number: UInt32) -> Piece? {
    guard let place = place(of: number), let cut = files[place].cut else { return nil }
    let isPublic = files[place].peer == nil
    guard let cutter = cut.cutter else { return Piece(bytes: cut.bytes, packet: nil, isPublic: isPublic) }
    guard let fragment = cutter.fragment(index, timestamp: files[place].repeatedTime),
      let bytes = try? fragment.encoded()
    else { return nil }
    return Piece(bytes: bytes, packet: fragment, isPublic: isPublic)
  }

  /// Numbers of the files without packets left to send.
  var gone: [UInt32] {
    files.indices.filter { files[$0].phase == .sending && files[$0].legs.isEmpty }.map { files[$0].number }
  }

  /// Returns the index of the file whose packet is sent next over a link; nil if there is none.
  private func first(for link: LinkID, isFast: Bool, at now: Instant) -> Int? {
    var first: (place: Int, left: Int)?
    for place in files.indices where files[place].phase == .sending && files[place].legs[link] != nil {
      guard let moment = moment(link, isConfirmed: isFast && !files[place].isSlow), moment <= now else { continue }
      let left = files[place].left
      if first.map({ left < $0.left }) ?? true { first = (place, left) }
    }
    return first?.place
  }

  /// Links with waiting packets, sorted by number.
  var links: [LinkID] {
    var links: Set<LinkID> = []
    for file in files where file.phase == .sending { links.formUnion(file.legs.keys) }
    return links.sorted { $0.number < $1.number }
  }

  /// Next time at which a packet or a check of a file is due; nil if there is none.
  func deadline(isFast: (LinkID) -> Bool) -> Instant? {
    var first: Instant?
    func take(_ moment: Instant?) {
      if let moment, first.map({ moment < $0 }) ?? true { first = moment }
    }
    for place in files.indices {
      switch files[place].phase {
      case .waiting(let moment): take(moment)
      case .unanswered(let moment): take(moment)
      case .sending:
        guard !isQuiet else { continue }
        // A packet with an outdated timestamp is not sent, whether or not links have capacity.
        take(files[place].staleAt)
        for link in files[place].legs.keys { take(moment(link, isConfirmed: isFast(link) && !files[place].isSlow)) }
      }
    }
    return first
  }
}
