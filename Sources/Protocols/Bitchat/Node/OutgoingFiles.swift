import Common

/// The files of this node that are on their way: two at a time go out, fragment by fragment, and the others wait. A value.
///
/// A link to a phone gets a fragment every 25 ms, and any link no more than it takes: of what was given to a link so many
/// packets may wait there, and the service says when there is room again. A node of this kind confirms what it has taken: what is
/// on its way in the stacks and radios of both ends can neither be overtaken nor, where it is too much for them, be kept.
struct OutgoingFiles: Sendable {
  /// The most files on their way, and the most that go out at a time.
  static let limit = 8
  static let activeLimit = 2
  /// From one fragment to the next on a link to a phone, and of a private file that goes over several hops. Facts: bitchat.md section 7.
  static let pause = PacedPackets.pause
  /// So late a fragment may leave without the next one leaving later for it: a machine that has much to do wakes late each time.
  static let lateness = Duration.milliseconds(5)
  /// The most packets of files that wait for a link.
  static let window = 16
  /// The time that fragments say is no older than that when they leave: all drop what is off by two minutes, and phones a packet
  /// whose own time is.
  static let freshTime = Duration.seconds(100)
  /// A node of this kind takes a packet of a file that is older, and puts fragments together for so long.
  static let longestTime = FragmentAssembler.Bounds().longestTime
  /// So long a peer has to acknowledge a file when all of it went out.
  static let answerTime = Duration.seconds(6)
  /// How often it is sent in all.
  static let tries = 6
  /// How often the same fragments go out once more, to fill what was lost of them. A peer that has them all, and whose receipt was lost,
  /// drops them as copies: it says again that it has the file when the file comes in a new packet.
  static let repetitions = 2
  /// So long a peer has to say, in a new session, what it takes.
  static let proofTime = Duration.seconds(10)
  /// How often one that waits is looked after.
  static let lookTime = Duration.seconds(5)
  static let lifetime = Duration.seconds(24 * 3600)
  /// The most files for everybody that can be taken back after they were sent.
  static let givenLimit = 64
  /// So long after a line another one is likely: files leave room for it.
  static let chatTime = Duration.seconds(30)

  private struct Pace: Sendable {
    /// When the next packet may go that nobody confirms.
    var next = Instant.zero
    /// Packets that may still wait for the link.
    var waiting = 0
    var confirming = Confirming()

    /// A packet goes over the link.
    ///
    /// - Parameter isConfirmed: whether the other end confirms it.
    mutating func note(_ mark: UInt64?, isConfirmed: Bool, at now: Instant) {
      waiting += 1
      guard !isConfirmed else { return confirming.sent(mark, at: now) }
      next = max(next, now.advanced(by: .zero - OutgoingFiles.lateness)).advanced(by: OutgoingFiles.pause)
    }
  }

  /// In the order of their numbers, in which they were given. What goes next, and when, is looked for where they lie: to copy one
  /// costs more than what becomes of a packet.
  private(set) var files: [OutgoingFile] = []
  /// The last files for everybody that were sent: what they went out in is given to who asks for it.
  private var given: [(number: UInt32, packets: FilePackets)] = []
  private var paces: [LinkID: Pace] = [:]
  /// When this node last said a line, or passed one on.
  private var chattedAt: Instant?
  /// Nothing goes out while somebody else needs the radio.
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
  /// Whether one more may begin.
  var hasPlace: Bool { files.count { $0.phase == .sending } < Self.activeLimit }

  /// Has files wait, or go on.
  mutating func hold(_ isQuiet: Bool) {
    self.isQuiet = isQuiet
    guard isQuiet else { return }
    for place in files.indices where files[place].cut != nil { files[place].wasHeld = true }
  }

  // MARK: Files that were sent

  /// A file for everybody was sent.
  mutating func give(_ number: UInt32, _ packets: FilePackets) {
    if given.count >= Self.givenLimit { given.removeFirst() }
    given.append((number, packets))
  }

  /// What a file for everybody went out in; nil where that is not known any more.
  mutating func takeGiven(_ number: UInt32) -> FilePackets? {
    given.firstIndex { $0.number == number }.map { given.remove(at: $0).packets }
  }

  // MARK: Links

  /// So many packets of files still wait for the link.
  mutating func hasRoom(_ link: LinkID, waiting: Int) { paces[link]?.waiting = waiting }

  /// The link is gone, and what was to go over it.
  mutating func forget(_ link: LinkID) {
    paces[link] = nil
    for place in files.indices { files[place].legs[link] = nil }
  }

  /// The moment at which a packet of a file may go over a link; nil while the link has no room.
  ///
  /// - Parameter isConfirmed: whether its other end confirms the packets of the file.
  private func moment(_ link: LinkID, isConfirmed: Bool) -> Instant? {
    guard let pace = paces[link] else { return .zero }
    guard pace.waiting < Self.window else { return nil }
    return isConfirmed ? pace.confirming.next : pace.next
  }

  /// Whether the other end of a fast link is to confirm what went there.
  func isConfirmationDue(on link: LinkID) -> Bool { paces[link]?.confirming.isDue ?? false }

  /// The other end is asked to confirm all that went before, with a number that its answer repeats.
  ///
  /// - Returns: after how many fragments it is to confirm from then on.
  mutating func ask(_ nonce: UInt64, on link: LinkID, at now: Instant) -> UInt8? {
    paces[link]?.confirming.ask(nonce, at: now)
    return (paces[link]?.confirming.interval).flatMap { UInt8(exactly: $0) }
  }

  /// A confirmation of the other end came.
  ///
  /// - Returns: whether it confirms packets of files.
  mutating func confirm(_ confirmation: FileConfirmation, on link: LinkID, at now: Instant) -> Bool {
    let isBesideChat = isBesideChat(at: now)
    paces[link]?.confirming.isBesideChat = isBesideChat
    return paces[link]?.confirming.confirm(confirmation, at: now) ?? false
  }

  /// A line goes out, and others are likely to follow.
  mutating func chatted(at now: Instant) { chattedAt = now }

  /// Whether another line is likely to go out while a file does.
  func isBesideChat(at now: Instant) -> Bool { chattedAt.map { $0.duration(to: now) < Self.chatTime } ?? false }

  /// Whether packets of a file are to go over a link.
  func isWaiting(for link: LinkID) -> Bool {
    !isQuiet && files.contains { $0.phase == .sending && $0.legs[link] != nil }
  }

  /// Another packet goes over a link, after which a phone needs its pause as well.
  mutating func giveWay(on link: LinkID, at now: Instant) {
    paces[link, default: Pace()].next = max(paces[link]?.next ?? .zero, now.advanced(by: Self.pause))
  }

  /// The next packet for a link: of the file that has least left, so that small ones do not wait for large ones.
  ///
  /// - Returns: the file's number, the packet's index, and whether it leaves no faster than a phone can follow.
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

  /// A packet of a file, as it goes out.
  struct Piece {
    let bytes: [UInt8]
    /// A fragment; nil for a packet that needs none.
    let packet: Packet?
    let isPublic: Bool
  }

  /// The packet with this index; nil if there is none.
  func piece(_ index: Int, of number: UInt32) -> Piece? {
    guard let place = place(of: number), let cut = files[place].cut else { return nil }
    let isPublic = files[place].peer == nil
    guard let cutter = cut.cutter else { return Piece(bytes: cut.bytes, packet: nil, isPublic: isPublic) }
    guard let fragment = cutter.fragment(index, timestamp: files[place].repeatedTime),
      let bytes = try? fragment.encoded()
    else { return nil }
    return Piece(bytes: bytes, packet: fragment, isPublic: isPublic)
  }

  /// Those of which nothing is left to go out.
  var gone: [UInt32] {
    files.indices.filter { files[$0].phase == .sending && files[$0].legs.isEmpty }.map { files[$0].number }
  }

  /// The place of the file whose packet goes next over a link; nil if none may.
  private func first(for link: LinkID, isFast: Bool, at now: Instant) -> Int? {
    var first: (place: Int, left: Int)?
    for place in files.indices where files[place].phase == .sending && files[place].legs[link] != nil {
      guard let moment = moment(link, isConfirmed: isFast && !files[place].isSlow), moment <= now else { continue }
      let left = files[place].left
      if first.map({ left < $0.left }) ?? true { first = (place, left) }
    }
    return first?.place
  }

  /// The links that something is to go over.
  var links: [LinkID] {
    var links: Set<LinkID> = []
    for file in files where file.phase == .sending { links.formUnion(file.legs.keys) }
    return links.sorted { $0.number < $1.number }
  }

  /// When something is due; nil if nothing is.
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
        // A packet that has become too old goes no further, whether or not the links have room for the rest of it.
        take(files[place].staleAt)
        for link in files[place].legs.keys { take(moment(link, isConfirmed: isFast(link) && !files[place].isSlow)) }
      }
    }
    return first
  }
}
