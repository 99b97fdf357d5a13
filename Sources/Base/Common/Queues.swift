/// A first-in, first-out queue. Both ends work in constant time.
public struct Fifo<Element> {
  @usableFromInline var elements: [Element?] = []
  @usableFromInline var head = 0

  @inlinable public init() {}

  @inlinable public var isEmpty: Bool { head == elements.count }
  @inlinable public var count: Int { elements.count - head }
  /// The element that `popFirst` removes next.
  @inlinable public var first: Element? { isEmpty ? nil : elements[head] }

  @inlinable
  public mutating func append(_ element: Element) {
    elements.append(element)
  }

  /// Removes and returns the oldest element; nil if the queue is empty.
  @discardableResult @inlinable
  public mutating func popFirst() -> Element? {
    guard !isEmpty else { return nil }
    let element = elements[head]
    elements[head] = nil
    head += 1
    if head == elements.count {
      elements.removeAll(keepingCapacity: true)
      head = 0
    } else if head > 64, head > elements.count / 2 {
      elements.removeFirst(head)
      head = 0
    }
    return element
  }

  @inlinable
  public mutating func removeAll() {
    elements = []
    head = 0
  }
}

extension Fifo: Sendable where Element: Sendable {}

/// A priority queue as a binary heap: the smallest element is removed first.
public struct Heap<Element: Comparable> {
  @usableFromInline var elements: [Element] = []

  @inlinable public init() {}

  @inlinable public var count: Int { elements.count }
  /// The smallest element, which `popFirst` removes next; nil if the heap is empty.
  @inlinable public var first: Element? { elements.first }

  @inlinable
  public mutating func insert(_ element: Element) {
    elements.append(element)
    elements.withUnsafeMutableBufferPointer { elements in
      var index = elements.count - 1
      while index > 0 {
        let parent = (index - 1) / 2
        guard element < elements[parent] else { break }
        elements[index] = elements[parent]
        index = parent
      }
      elements[index] = element
    }
  }

  /// Removes and returns the smallest element.
  @discardableResult @inlinable
  public mutating func popFirst() -> Element? {
    guard let first = elements.first, let last = elements.popLast() else { return nil }
    if !elements.isEmpty {
      elements[0] = last
      siftDown(0)
    }
    return first
  }

  /// Removes the elements for which `isKept` returns false; it is called once for each element.
  @inlinable
  public mutating func keep(where isKept: (Element) -> Bool) {
    elements.removeAll { !isKept($0) }
    for index in stride(from: elements.count / 2, through: 0, by: -1) { siftDown(index) }
  }

  @inlinable
  mutating func siftDown(_ start: Int) {
    guard start < elements.count else { return }
    elements.withUnsafeMutableBufferPointer { elements in
      var index = start
      let element = elements[index]
      while true {
        var child = 2 * index + 1
        guard child < elements.count else { break }
        if child + 1 < elements.count, elements[child + 1] < elements[child] { child += 1 }
        guard elements[child] < element else { break }
        elements[index] = elements[child]
        index = child
      }
      elements[index] = element
    }
  }
}

extension Heap: Sendable where Element: Sendable {}
