/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuDNN's backend (graph) interface: a descriptor is a list of attributes, which are given back as
 * they were set. Every graph has one engine and one configuration, with a workspace of 0 bytes.
 */
#include <string.h>

#include "stub.h"

enum {
	SUCCESS = 0,
	BAD_PARAMETER = STUB_REFUSAL > 1000 ? 2000 : 3,
	ALLOCATION_FAILED = STUB_REFUSAL > 1000 ? 4003 : 2
};

enum {
	ENGINE_RESULTS = 202,
	CONFIGURATION_WORKSPACE = 303,
	PLAN_WORKSPACE = 402,
	ENGINE_COUNT = 802
};

enum { TYPE_DESCRIPTOR = 15 };

struct attribute {
	int name;
	int64_t count;
	struct attribute *next;
	char value[];
};

struct descriptor {
	int type;
	struct attribute *attributes;
};

/* Bytes of an element of a cudnnBackendAttributeType_t; most are enumerations. */
static size_t element_size(int type)
{
	switch (type) {
	case 2:  /* boolean */
	case 24: /* character */
		return 1;
	case 0:  /* handle */
	case 3:  /* 64-bit integer */
	case 5:  /* double */
	case 6:  /* pointer */
	case TYPE_DESCRIPTOR:
		return 8;
	case 26: /* fraction */
		return 16;
	default:
		return 4;
	}
}

int stub_cudnnBackendCreateDescriptor(int type, struct descriptor **ret)
{
	struct descriptor *descriptor = ret ? stub_object(sizeof(*descriptor)) : NULL;

	if (!descriptor)
		return ret ? ALLOCATION_FAILED : BAD_PARAMETER;
	descriptor->type = type;
	*ret = descriptor;
	return SUCCESS;
}

int stub_cudnnBackendDestroyDescriptor(struct descriptor *descriptor)
{
	while (descriptor && descriptor->attributes) {
		struct attribute *attribute = descriptor->attributes;

		descriptor->attributes = attribute->next;
		stub_object_free(attribute);
	}
	stub_object_free(descriptor);
	return SUCCESS;
}

int stub_cudnnBackendSetAttribute(struct descriptor *descriptor, int name, int type, int64_t count,
				  const void *value)
{
	size_t size = count > 0 ? (size_t)count * element_size(type) : 0;
	struct attribute *attribute;

	if (!descriptor || count < 0 || (count && !value))
		return BAD_PARAMETER;
	attribute = stub_object(sizeof(*attribute) + size);
	if (!attribute)
		return ALLOCATION_FAILED;
	attribute->name = name;
	attribute->count = count;
	memcpy(attribute->value, value, size);
	attribute->next = descriptor->attributes;
	descriptor->attributes = attribute;
	return SUCCESS;
}

static int give_number(int64_t number, int64_t wanted, int64_t *count, void *ret)
{
	if (count)
		*count = 1;
	if (wanted > 0 && ret)
		memcpy(ret, &number, sizeof(number));
	return SUCCESS;
}

/* Descriptors in a list are the caller's own objects, which stay as they are. */
static void give(const void *value, int64_t count, int type, void *ret)
{
	size_t size = count > 0 ? (size_t)count * element_size(type) : 0;

	if (!ret || type == TYPE_DESCRIPTOR)
		return;
	if (value)
		memcpy(ret, value, size);
	else
		memset(ret, 0, size);
}

int stub_cudnnBackendGetAttribute(const struct descriptor *descriptor, int name, int type,
				  int64_t wanted, int64_t *count, void *ret)
{
	const struct attribute *attribute;

	if (!descriptor)
		return BAD_PARAMETER;
	if (name == ENGINE_RESULTS || name == ENGINE_COUNT)
		return give_number(1, name == ENGINE_COUNT ? wanted : 0, count, ret);
	if (name == CONFIGURATION_WORKSPACE || name == PLAN_WORKSPACE)
		return give_number(0, wanted, count, ret);
	for (attribute = descriptor->attributes; attribute; attribute = attribute->next)
		if (attribute->name == name)
			break;
	if (count)
		*count = attribute ? attribute->count : 0;
	if (attribute)
		give(attribute->value, attribute->count < wanted ? attribute->count : wanted, type,
		     ret);
	else
		give(NULL, wanted, type, ret);
	return SUCCESS;
}
